# A session of DBD::Pg: what it prints is compared between the servers. Arguments: host, port, database, feature.
use strict;
use warnings;
use DBI qw(:sql_types);
use DBD::Pg qw(:pg_types :async);

my ($host, $port, $database, $feature) = @ARGV;
my $db = open_one();

sub open_one {
    return DBI->connect("dbi:Pg:host=$host;port=$port;dbname=$database", 'postgres', '',
        { RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoCommit => 1 });
}

sub show {
    print join(' | ', map { !defined $_ ? 'NULL' : ref $_ ? '{' . join(',', map { $_ // 'NULL' } @$_) . '}' : $_ } @_), "\n";
}

sub refused {
    my ($what) = @_;
    eval { $what->(); 1 } and die 'it should have failed';
    show($db->state, $db->errstr =~ /\A(.*)$/m ? $1 : '');
}

my %features = (
    rows => sub {
        $db->do('CREATE TABLE things (id serial PRIMARY KEY, name text NOT NULL, price numeric(12,2), tags text[], raw bytea,'
            . ' fine boolean, at timestamptz, doc jsonb, took interval)');
        my $insert = $db->prepare('INSERT INTO things (name, price, tags, raw, fine, at, doc, took) VALUES (?,?,?,?,?,?,?,?) RETURNING id');
        $insert->bind_param(4, undef, { pg_type => PG_BYTEA });
        for my $row (
            ["a 'quoted' \\ name", '12.50', ['a', 'b,"c"', undef], "\x00\xff'", 1, '2024-02-29 12:00:00+00', '{"a": [1, null]}', '1 day 02:03:04'],
            ['', undef, [], '', 0, undef, 'null', undef],
        ) {
            $insert->execute(@$row);
            show($insert->fetchrow_array);
        }
        show($db->last_insert_id(undef, 'public', 'things', undef));
        $db->do("SET TimeZone = 'UTC'");
        my $select = $db->prepare('SELECT * FROM things WHERE id >= ? ORDER BY id');
        $select->execute(1);
        show(@{ $select->{NAME} });
        show(@{ $select->{TYPE} });
        show(@{ $select->{pg_type} });
        while (my @row = $select->fetchrow_array) { $row[4] = unpack('H*', $row[4]); show(@row); }
        $select->execute(2);
        show($select->rows);
        show(@$_) for @{ $db->selectall_arrayref('SELECT $1::int + $2::int, $1 || $2::text', {}, 4, 2) };
        my $named = $db->prepare('SELECT :word::text, :number::int * 2, :word::text');
        $named->bind_param(':word', 'w');
        $named->bind_param(':number', 21);
        $named->execute;
        show($named->fetchrow_array);
        show($db->selectrow_array('SELECT count(*) FROM generate_series(1, ?)', {}, 100000));
        my $many = $db->prepare('INSERT INTO things (name, price) VALUES (?, ?)');
        my $done = $many->execute_array({ ArrayTupleStatus => \my @status }, ['x', 'y', 'z'], [1, 2, 3]);
        show($done, @status);
        show($db->do('UPDATE things SET price = price + 1 WHERE price < 10'));
        show($db->do('DELETE FROM things WHERE false'));
        for my $prepare (0, 1, 2) {
            my $sth = $db->prepare('SELECT ?::int + 1', { pg_server_prepare => $prepare });
            $sth->execute($_), show($sth->fetchrow_array) for 1 .. 3;
        }
        show($db->quote("it's \\"), $db->quote_identifier('Odd "one"'), $db->quote("\x00\x01", { pg_type => PG_BYTEA }));
        show($db->ping > 0 ? 'alive' : 'dead', $db->pg_ping > 0 ? 'alive' : 'dead');
    },
    catalog => sub {
        $db->do('CREATE SCHEMA shop');
        $db->do("CREATE TABLE shop.maker (id int PRIMARY KEY, name varchar(40) NOT NULL DEFAULT 'x', UNIQUE (name))");
        $db->do('CREATE TABLE shop.item (maker int REFERENCES shop.maker ON DELETE CASCADE, no int, note text, price numeric(8,2), PRIMARY KEY (maker, no))');
        $db->do("COMMENT ON COLUMN shop.item.note IS 'what is said of it'");
        $db->do('CREATE VIEW shop.cheap AS SELECT * FROM shop.item WHERE price < 10');
        show(@$_[1 .. 4]) for @{ $db->table_info(undef, 'shop', '%', undef)->fetchall_arrayref };
        show(@$_[1 .. 8, 10 .. 17]) for @{ $db->column_info(undef, 'shop', '%', '%')->fetchall_arrayref };
        show(@$_[1 .. 5]) for @{ $db->primary_key_info(undef, 'shop', 'item')->fetchall_arrayref };
        show($db->primary_key(undef, 'shop', 'item'));
        show(@$_) for @{ $db->foreign_key_info(undef, 'shop', 'maker', undef, 'shop', 'item')->fetchall_arrayref };
        show(@$_[1 .. 9]) for @{ $db->statistics_info(undef, 'shop', 'maker', undef, undef)->fetchall_arrayref };
        show(map { $_->[0] } @{ $db->type_info_all }[1 .. 12]);
        show($db->tables(undef, 'shop', '%', 'TABLE'));
    },
    copies => sub {
        $db->do('CREATE TABLE copied (id int, word text)');
        $db->do('COPY copied FROM STDIN');
        $db->pg_putcopydata("$_\tword $_\n") for 1 .. 1000;
        $db->pg_putcopydata("1001\t\\N\n");
        $db->pg_putcopyend;
        show($db->selectrow_array('SELECT count(*), count(word), sum(id) FROM copied'));
        $db->do('COPY (SELECT * FROM copied WHERE id > 998 ORDER BY id) TO STDOUT WITH (FORMAT csv)');
        my $line = '';
        print $line while $db->pg_getcopydata($line) >= 0;
        refused(sub { $db->do('COPY copied FROM STDIN'); $db->pg_putcopydata("x\ty\n"); $db->pg_putcopyend; });
        show($db->selectrow_array('SELECT count(*) FROM copied'));
    },
    transactions => sub {
        $db->do('CREATE TABLE accounts (id int PRIMARY KEY, amount int CHECK (amount >= 0))');
        $db->begin_work;
        $db->do('INSERT INTO accounts VALUES (1, 10), (2, 20)');
        $db->pg_savepoint('one');
        refused(sub { $db->do('UPDATE accounts SET amount = amount - 15') });
        refused(sub { $db->do('SELECT 1') });
        show($db->state);
        $db->pg_rollback_to('one');
        $db->do('UPDATE accounts SET amount = amount - 5');
        $db->pg_release('one');
        $db->commit;
        show(@$_) for @{ $db->selectall_arrayref('SELECT * FROM accounts ORDER BY id') };
        refused(sub { $db->do('INSERT INTO accounts VALUES (1, 1)') });
        refused(sub { $db->do('INSERT INTO accounts VALUES (?, ?)', {}, 'x', 1) });
        refused(sub { $db->do('SELECT nothing FROM accounts') });
        refused(sub { $db->do('SELEKT 1') });
        $db->begin_work;
        $db->do('DELETE FROM accounts');
        $db->rollback;
        show($db->selectrow_array('SELECT count(*) FROM accounts'));
        my $other = open_one();
        $db->do('LISTEN news');
        $other->do("NOTIFY news, 'something'");
        $db->do('SELECT 1');
        my $notify = $db->pg_notifies;
        show($notify->[0], $notify->[2]);
        $db->do('SELECT pg_sleep(30)', { pg_async => PG_ASYNC });
        show($db->pg_ready);
        show($db->pg_cancel);
        $db->do('SELECT 1 FROM pg_sleep(0.1)', { pg_async => PG_ASYNC });
        show($db->pg_result);
        $db->do("SET client_min_messages = 'notice'");
        my $said = '';
        local $SIG{__WARN__} = sub { $said .= shift };
        $db->{PrintWarn} = 1;
        $db->do('DROP TABLE IF EXISTS no_such_table');
        print $said;
    },
);
$features{$feature}->();
