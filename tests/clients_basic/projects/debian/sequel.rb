# A session of Sequel: what it prints is compared between the servers. Arguments: the URL of the database, the feature.
require 'sequel'
Sequel.extension :migration

URL, FEATURE = ARGV
DB = Sequel.connect(URL)
DB.extension :pg_array, :pg_json, :pg_range, :pg_enum, :pg_interval

def refused
  yield
  raise 'it should have failed'
rescue Sequel::DatabaseError => error
  puts "#{error.class} #{error.message.lines.first.chomp}"
end

MIGRATION = Sequel.migration do
  up do
    create_enum(:mood, %w[sad fine])
    create_table(:authors) do
      primary_key :id
      String :name, null: false, unique: true
      column :mood, :mood, default: 'fine'
      DateTime :born
    end
    create_table(:books) do
      primary_key :id, type: :Bignum
      foreign_key :author_id, :authors, null: false, on_delete: :cascade
      String :title, size: 100, null: false
      BigDecimal :price, size: [10, 2]
      column :tags, 'text[]'
      column :details, :jsonb
      column :sold, :int4range
      index %i[author_id title], unique: true
      index :title, where: Sequel.lit('price > 10'), name: :books_dear
      constraint(:price_is_positive) { price > 0 }
    end
    alter_table(:books) do
      add_column :pages, Integer, default: 0
      rename_column :details, :facts
      set_column_type :title, String, text: true
      set_column_not_null :pages
      add_index :pages, concurrently: false
    end
    create_view(:dear, Sequel.lit('SELECT title FROM books WHERE price > 10'))
  end
  down do
    drop_view(:dear)
    drop_table(:books, :authors)
    drop_enum(:mood)
  end
end

case FEATURE
when 'schema'
  MIGRATION.apply(DB, :up)
  p DB.tables.sort, DB.views
  p DB.indexes(:books), DB.foreign_key_list(:books)
  puts [DB.schema(:books), DB.schema(:authors)].inspect.gsub(/:oid=>\d{5,}, /, "")
  p DB.primary_key(:books), DB.primary_key_sequence(:authors), DB.check_constraints(:books)
  MIGRATION.apply(DB, :down)
  MIGRATION.apply(DB, :up)
  p DB.table_exists?(:books), DB.table_exists?(:nothing), DB.server_version / 10_000
when 'models'
  class Author < Sequel::Model
    one_to_many :books
  end
  class Book < Sequel::Model
    many_to_one :author
  end
  ann = Author.create(name: 'Ann', born: Time.utc(1960, 2, 29, 12))
  book = ann.add_book(title: "It's one", price: BigDecimal('12.50'), tags: Sequel.pg_array(%w[a b,c], :text), facts: Sequel.pg_jsonb('a' => [1, nil]), sold: 1...5)
  puts book.refresh.values.inspect.gsub(/0x\h+/, '')
  p ann.refresh.values
  DB[:books].multi_insert((1..200).map { |at| { author_id: ann.id, title: "title #{at}", price: at } })
  DB[:books].import(%i[author_id title price], (201..205).map { |at| [ann.id, "title #{at}", at] })
  p DB[:books].where { price > 150 }.count, DB[:books].where(Sequel.ilike(:title, '%IT''S%')).select_map(:title)
  p DB[:books].where(Sequel.pg_array_op(:tags).contains(Sequel.pg_array(['a'], :text))).count rescue p $!
  p DB[:books].select_group(Sequel.function(:length, :title)).select_append { [count.function.*.as(:many), sum(:price).as(:total)] }.order(1).all
  p DB[:books].returning(:id, :title).where(title: 'title 7').update(price: Sequel[:price] + 1)
  p DB[:books].insert_conflict(target: %i[author_id title], update: { price: Sequel[:excluded][:price] }).insert(author_id: ann.id, title: 'title 8', price: 99)
  p DB[:books].insert_conflict.insert(author_id: ann.id, title: 'title 8', price: 1)
  p Author.eager(:books).all.map { |author| [author.name, author.books.size] }
  p Book.join(:authors, id: :author_id).where(name: 'Ann').select_all(:books).order(:id).first.title
  p DB[:n].with_recursive(:n, DB.select(Sequel.as(1, :x)), DB[:n].select { x + 1 }.where { x < 5 }).select_map(:x)
  p DB[:books].order(:id).limit(3, 5).for_update.select_map(:title)
  p DB[:books].paged_each(rows_per_fetch: 50).inject(0) { |sum, _| sum + 1 } rescue p $!
  p DB[:books].use_cursor(rows_per_fetch: 50).inject(0) { |sum, _| sum + 1 }
  p DB[:books].where(title: :$t).call(:select, t: 'title 9').map { |row| row[:price] }
  prepared = DB[:books].where { price > :$low }.prepare(:select, :above)
  p prepared.call(low: 203).size
  refused { Author.create(name: 'Ann') }
  refused { DB[:books].insert(author_id: 99, title: 'x') }
  refused { DB[:books].insert(author_id: ann.id, title: 'neg', price: -1) }
  refused { DB[:books].insert(author_id: ann.id) }
when 'transactions'
  DB.create_table(:accounts) { Integer :id, primary_key: true; Integer :amount }
  DB.transaction { DB[:accounts].import(%i[id amount], [[1, 10], [2, 20]]) }
  DB.transaction(rollback: :always) { DB[:accounts].delete }
  DB.transaction do
    DB.transaction(savepoint: true) { DB[:accounts].where(id: 1).update(amount: 0); raise Sequel::Rollback }
    DB[:accounts].where(id: 2).update(amount: 21)
  end
  p DB[:accounts].order(:id).all
  DB.transaction(isolation: :serializable, retry_on: Sequel::SerializationFailure) { DB[:accounts].where(id: 1).update(amount: Sequel[:amount] + 1) }
  DB.transaction(read_only: true) { refused { DB[:accounts].delete } } rescue p $!.class
  DB.after_commit { puts 'committed' }
  DB.copy_into(:accounts, columns: %i[id amount], data: (10..20).map { |at| "#{at}\t#{at}\n" })
  print DB.copy_table(DB[:accounts].where { id > 15 }.order(:id), format: :csv)
  listener = Thread.new { DB.listen(:news, timeout: 10) { |channel, _, payload| p [channel, payload] } }
  sleep 1
  DB.notify(:news, payload: 'something')
  listener.join
  p DB[:accounts].sum(:amount), DB.fetch('SELECT ?::int + 1 AS n', 41).first
end
