<?php
// A session of PDO: what it prints is compared between the servers. Arguments: host, port, database, feature.
[, $host, $port, $database, $feature] = $argv;

function open_one(array $options = []): PDO
{
    global $host, $port, $database;
    return new PDO("pgsql:host=$host;port=$port;dbname=$database", 'postgres', '', $options + [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);
}

function show(mixed ...$values): void
{
    $texts = array_map(fn ($value) => is_resource($value) ? 'bytes ' . bin2hex(stream_get_contents($value)) : json_encode($value), $values);
    echo implode(' | ', $texts), "\n";
}

function refused(callable $what): void
{
    try {
        $what();
    } catch (PDOException $error) {
        show($error->errorInfo[0], strtok($error->errorInfo[2], "\n"));
        return;
    }
    throw new Exception('it should have failed');
}

$db = open_one();
$features = [
    'rows' => function () use ($db) {
        $db->exec("CREATE TABLE things (id serial PRIMARY KEY, name text NOT NULL, price numeric(12,2), raw bytea, fine boolean, at timestamp, doc jsonb, tags int[])");
        $insert = $db->prepare('INSERT INTO things (name, price, raw, fine, at, doc, tags) VALUES (:name, :price, :raw, :fine, :at, :doc, :tags) RETURNING id');
        foreach ([["a 'quoted' \\ name", '12.50', "\x00\xff'", true, '2024-02-29 12:00:00', '{"a": [1, null]}', '{1,2,NULL}'], ['', null, '', false, null, 'null', '{}']] as $row) {
            foreach (['name', 'price', 'raw', 'fine', 'at', 'doc', 'tags'] as $place => $name) {
                $insert->bindValue($name, $row[$place], ['raw' => PDO::PARAM_LOB, 'fine' => PDO::PARAM_BOOL][$name] ?? PDO::PARAM_STR);
            }
            $insert->execute();
            show($insert->fetchColumn());
        }
        show($db->lastInsertId(), $db->lastInsertId('things_id_seq'));
        foreach ($db->query('SELECT * FROM things ORDER BY id', PDO::FETCH_NUM) as $row) {
            show(...$row);
        }
        $meta = $db->query('SELECT id, name, price, fine, at, tags, count(*) OVER () FROM things');
        for ($place = 0; $place < $meta->columnCount(); $place++) {
            $found = $meta->getColumnMeta($place);
            show($found['name'], $found['native_type'], $found['pgsql:oid'], $found['len'], $found['precision'], $found['pdo_type'], $found['table'] ?? null);
        }
        $select = $db->prepare('SELECT ?::int + ?::int, ?::text');
        foreach ([[1, 2, 'x'], [3, 4, null]] as $given) {
            $select->execute($given);
            show(...$select->fetch(PDO::FETCH_NUM));
        }
        foreach ([[PDO::ATTR_EMULATE_PREPARES => true], [PDO::PGSQL_ATTR_DISABLE_PREPARES => true]] as $options) {
            $other = open_one($options);
            $select = $other->prepare("SELECT :one::text || '?', :two::int");
            $select->execute(['one' => "it's \\", 'two' => 7]);
            show(...$select->fetch(PDO::FETCH_NUM));
        }
        show($db->query("SELECT doc ?? 'a' FROM things WHERE id = 1")->fetchColumn());
        show($db->query('SELECT id AS k, name AS v FROM things ORDER BY 1')->fetchAll(PDO::FETCH_KEY_PAIR));
        $scroll = $db->prepare('SELECT generate_series(1, 5)', [PDO::ATTR_CURSOR => PDO::CURSOR_SCROLL]);
        $db->beginTransaction();
        $scroll->execute();
        show($scroll->fetchColumn(), $scroll->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_LAST), $scroll->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_ABS, 2), $scroll->fetch(PDO::FETCH_NUM, PDO::FETCH_ORI_PRIOR));
        $scroll = null;
        $db->commit();
        show($db->exec('UPDATE things SET price = 1 WHERE price IS NULL'), $db->exec('DELETE FROM things WHERE false'));
        show($db->quote("it's \\"), $db->getAttribute(PDO::ATTR_SERVER_VERSION) !== '', $db->getAttribute(PDO::ATTR_CONNECTION_STATUS));
    },
    'copies' => function () use ($db) {
        $db->exec('CREATE TABLE copied (id int, word text)');
        $lines = [];
        for ($number = 1; $number <= 1000; $number++) {
            $lines[] = "$number\tword $number\n";
        }
        show($db->pgsqlCopyFromArray('copied', $lines), $db->pgsqlCopyFromArray('copied', ["1001,\\\\N\n"], ','));
        show($db->query('SELECT count(*), count(word), sum(id) FROM copied')->fetch(PDO::FETCH_NUM));
        show(count($db->pgsqlCopyToArray('copied')), array_slice($db->pgsqlCopyToArray('copied', ';', 'nothing'), -2));
        $file = tempnam(sys_get_temp_dir(), 'copied');
        show($db->pgsqlCopyToFile('copied', $file), count(file($file)));
        show($db->pgsqlCopyFromFile('copied', $file), $db->query('SELECT count(*) FROM copied')->fetchColumn());
        unlink($file);
        refused(fn () => $db->pgsqlCopyFromArray('copied', ["x\ty\n"]) ?: throw new Exception('false'));
    },
    'transactions' => function () use ($db) {
        $db->exec('CREATE TABLE accounts (id int PRIMARY KEY, amount int CHECK (amount >= 0))');
        $db->beginTransaction();
        $db->exec('INSERT INTO accounts VALUES (1, 10), (2, 20)');
        $db->exec('SAVEPOINT one');
        refused(fn () => $db->exec('UPDATE accounts SET amount = amount - 15'));
        refused(fn () => $db->query('SELECT 1'));
        $db->exec('ROLLBACK TO one');
        $db->exec('UPDATE accounts SET amount = amount - 5');
        show($db->inTransaction());
        $db->commit();
        show($db->query('SELECT * FROM accounts ORDER BY id')->fetchAll(PDO::FETCH_ASSOC));
        refused(fn () => $db->exec('INSERT INTO accounts VALUES (1, 1)'));
        refused(fn () => $db->prepare('INSERT INTO accounts VALUES (?, ?)')->execute(['x', 1]));
        refused(fn () => $db->query('SELECT nothing FROM accounts'));
        refused(fn () => $db->query('SELEKT 1'));
        $db->beginTransaction();
        $db->exec('DELETE FROM accounts');
        $db->rollBack();
        show($db->query('SELECT count(*) FROM accounts')->fetchColumn());
        $other = open_one();
        $db->exec('LISTEN news');
        $other->exec("NOTIFY news, 'something'");
        $got = $db->pgsqlGetNotify(PDO::FETCH_ASSOC, 5000);
        show($got['message'], $got['payload'], is_int($db->pgsqlGetPid()));
        $kept = open_one([PDO::ATTR_PERSISTENT => true]);
        show($kept->query('SELECT 1')->fetchColumn());
    },
];
$features[$feature]();
