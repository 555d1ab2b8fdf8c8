# A session of Ruby's pg: what it prints is compared between the servers. Arguments: the URL of the database, the feature.
require 'pg'

URL, FEATURE = ARGV
DB = PG.connect(URL)

def refused
  yield
  raise 'it should have failed'
rescue PG::Error => error
  puts "#{error.class} #{error.result&.error_field(PG::PG_DIAG_SQLSTATE)} #{error.message.lines.first.chomp}"
end

case FEATURE
when 'rows'
  DB.exec('CREATE TABLE things (id serial PRIMARY KEY, name text NOT NULL, price numeric(12,2), raw bytea, fine boolean, at timestamptz, tags text[])')
  DB.exec("SET TimeZone = 'UTC'")
  insert = 'INSERT INTO things (name, price, raw, fine, at, tags) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id'
  p DB.exec_params(insert, ["a 'quoted' \\ name", '12.50', { value: "\x00\xFF'".b, format: 1 }, 't', '2024-02-29 12:00:00+00', '{a,"b,c",NULL}']).values
  DB.prepare('insert', insert)
  p DB.exec_prepared('insert', ['', nil, '', false, nil, '{}']).values
  result = DB.exec('SELECT * FROM things ORDER BY id')
  p result.fields, result.values, (0...result.nfields).map { |at| [result.ftype(at), result.fmod(at), result.fsize(at)] }
  DB.type_map_for_results = PG::BasicTypeMapForResults.new(DB)
  DB.type_map_for_queries = PG::BasicTypeMapForQueries.new(DB)
  p DB.exec('SELECT id, name, price, fine, at, tags, 1.5::float8, date \'2024-02-29\', \'{"a": 1}\'::json, \'10.1.2.3/24\'::inet, int8 \'9223372036854775807\' FROM things ORDER BY id').values
  p DB.exec_params('SELECT $1 + 1, $2 || \'!\', $3, $4::text[]', [41, 'x', 2.5, ['a', 'b"c']]).values
  p DB.exec_params('SELECT id, name, fine FROM things ORDER BY id', [], 1).values
  p DB.describe_prepared('insert').then { |d| [d.nparams, (0...d.nparams).map { |at| d.paramtype(at) }, d.fields] }
  DB.send_query('SELECT generate_series(1, 5)')
  DB.set_single_row_mode
  DB.get_result.stream_each { |row| p row }
  p DB.exec('SELECT 1; SELECT 2').values
  p DB.escape_literal("it's \\"), DB.escape_identifier('Odd "one"'), DB.escape_bytea("\x00a'\\")
  p DB.server_version / 10_000, DB.parameter_status('server_encoding'), DB.transaction_status
when 'copies'
  DB.exec('CREATE TABLE copied (id int, word text)')
  encoder = PG::TextEncoder::CopyRow.new
  done = DB.copy_data('COPY copied FROM STDIN', encoder) { 1000.times { |at| DB.put_copy_data([at + 1, at == 7 ? nil : "word\t#{at}"]) } }
  p done.cmd_tuples
  p DB.exec('SELECT count(*), count(word), sum(id) FROM copied').values
  DB.copy_data("COPY (SELECT * FROM copied WHERE id > 998 OR word IS NULL ORDER BY id) TO STDOUT", PG::TextDecoder::CopyRow.new) do
    while (row = DB.get_copy_data)
      p row
    end
  end
  refused { DB.copy_data('COPY copied FROM STDIN') { DB.put_copy_data("x\ty\n") } }
  refused { DB.copy_data('COPY copied FROM STDIN') { raise PG::Error, 'given up' } }
  p DB.exec('SELECT count(*) FROM copied').values
when 'transactions'
  DB.exec('CREATE TABLE accounts (id int PRIMARY KEY, amount int CHECK (amount >= 0))')
  DB.transaction do
    DB.exec('INSERT INTO accounts VALUES (1, 10), (2, 20)')
    DB.exec('SAVEPOINT one')
    refused { DB.exec('UPDATE accounts SET amount = amount - 15') }
    refused { DB.exec('SELECT 1') }
    p DB.transaction_status
    DB.exec('ROLLBACK TO one')
    DB.exec('UPDATE accounts SET amount = amount - 5')
  end
  p DB.exec('SELECT * FROM accounts ORDER BY id').to_a
  refused { DB.exec('INSERT INTO accounts VALUES (1, 1)') }
  refused { DB.exec_params('INSERT INTO accounts VALUES ($1, $2)', ['x', 1]) }
  refused { DB.exec('SELECT nothing FROM accounts') }
  refused { DB.transaction { DB.exec('DELETE FROM accounts'); raise PG::Error, 'given up' } }
  p DB.exec('SELECT count(*) FROM accounts').getvalue(0, 0)
  other = PG.connect(URL)
  DB.exec('LISTEN news')
  other.exec("NOTIFY news, 'something'")
  p DB.wait_for_notify(5) { |channel, _, payload| p [channel, payload] }
  DB.send_query('SELECT pg_sleep(30)')
  sleep 1
  p DB.cancel
  refused { DB.get_last_result }
  DB.enter_pipeline_mode
  3.times { |at| DB.send_query_params('SELECT $1::int * 2', [at]) }
  DB.send_query_params('SELECT 1/$1::int', [0])
  DB.send_query_params('SELECT 4', [])
  DB.pipeline_sync
  loop do
    result = DB.get_result
    next if result.nil?
    puts result.res_status(result.result_status), result.result_status == PG::PGRES_TUPLES_OK ? result.values.inspect : result.error_message.to_s.lines.first.to_s
    break if result.result_status == PG::PGRES_PIPELINE_SYNC
  end
  DB.exit_pipeline_mode
  DB.set_notice_receiver { |notice| puts notice.error_message }
  DB.exec('DROP TABLE IF EXISTS no_such_table')
  DB.reset
  p DB.exec('SELECT 1').values
end
