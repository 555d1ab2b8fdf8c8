# A session of ActiveRecord: what it prints is compared between the servers. Arguments: the URL of the database, the feature.
require 'active_record'

URL, FEATURE = ARGV
ActiveRecord::Base.establish_connection(URL)
ActiveRecord::Migration.verbose = false
CONNECTION = ActiveRecord::Base.connection

def refused
  yield
  raise 'it should have failed'
rescue ActiveRecord::ActiveRecordError => error
  puts "#{error.class} #{error.message.lines.first.chomp}"
end

class First < ActiveRecord::Migration[6.1]
  def change
    create_table :authors do |t|
      t.string :name, null: false
      t.datetime :born
      t.boolean :living, default: true
      t.timestamps
    end
    create_table :books, id: :uuid do |t|
      t.references :author, null: false, foreign_key: { on_delete: :cascade }
      t.string :title, limit: 100, null: false
      t.decimal :price, precision: 10, scale: 2
      t.text :tags, array: true, default: []
      t.jsonb :facts
      t.int4range :sold
      t.binary :raw
      t.inet :seen_from
      t.integer :lock_version, default: 0
      t.index %i[author_id title], unique: true
      t.index :title, where: 'price > 10', name: 'books_dear'
      t.check_constraint 'price > 0', name: 'price_is_positive'
    end
  end
end

class Second < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def change
    add_column :books, :pages, :integer, default: 0, null: false, comment: 'how many'
    rename_column :books, :facts, :details
    add_index :books, :pages, algorithm: :concurrently
    rename_table :authors, :writers
    rename_table :writers, :authors
    change_column_null :authors, :born, true
    change_column_default :books, :price, from: nil, to: 1
  end
end

class Author < ActiveRecord::Base
  has_many :books
  validates :name, presence: true
end

class Book < ActiveRecord::Base
  belongs_to :author
  scope :dear, -> { where('price > ?', 100) }
end

def migrated(direction)
  schema = ActiveRecord::Base.connection.schema_migration
  schema.create_table
  list = [First, Second].each_with_index.map { |kind, at| kind.new(kind.name, at + 1) }
  ActiveRecord::Migrator.new(direction, list, schema).migrate
  p schema.all_versions
end

case FEATURE
when 'migrations'
  migrated(:up)
  p CONNECTION.tables.sort
  %w[authors books].each do |table|
    p CONNECTION.columns(table).map { |column| [column.name, column.sql_type, column.null, column.default, column.default_function, column.comment, column.array] }
    p CONNECTION.indexes(table).map { |index| [index.name, index.columns, index.unique, index.where] }.sort
    p CONNECTION.foreign_keys(table).map(&:options), CONNECTION.check_constraints(table).map { |check| [check.name, check.expression] }, CONNECTION.primary_key(table)
  end
  stream = StringIO.new
  ActiveRecord::SchemaDumper.dump(CONNECTION, stream)
  puts stream.string
  migrated(:down)
  p CONNECTION.tables.sort
  migrated(:up)
when 'models'
  ann = Author.create!(name: 'Ann', born: Time.utc(1960, 2, 29, 12))
  book = ann.books.create!(title: "It's one", price: '12.50', tags: ['a', 'b,"c"'], details: { 'a' => [1, nil] }, sold: 1...5, raw: "\x00\xFF'".b, seen_from: '10.1.2.3')
  p book.reload.attributes.except('id'), ann.reload.attributes.except('created_at', 'updated_at')
  now = Time.now
  Book.insert_all((1..200).map { |at| { author_id: ann.id, title: "title #{at}", price: at } })
  p Book.upsert_all([{ author_id: ann.id, title: 'title 8', price: 99 }], unique_by: %i[author_id title], returning: %i[title price]).rows
  p Book.dear.count, Book.where(title: ['title 1', 'title 2']).order(:title).pluck(:title, :price), Book.where("'a' = ANY (tags)").count
  p Book.where("details->'a'->>0 = ?", '1').pluck(:title), Book.where('sold @> 3').count, Book.average(:price), Book.sum(:price), Book.group(:author_id).maximum(:price)
  p Author.joins(:books).where(books: { title: 'title 3' }).pluck(:name), Author.includes(:books).map { |author| author.books.size }, Author.left_joins(:books).group(:id).count
  p Book.find_each(batch_size: 50).count, Book.order(:title).limit(3).offset(5).pluck(:title), Book.exists?(title: 'nothing'), Book.distinct.count(:price)
  p Book.where(title: 'title 7').update_all('price = price + 1'), Book.where(title: 'title 9').delete_all
  same = Book.find(book.id)
  book.update!(price: 13)
  refused { same.update!(price: 14) }
  refused { Author.create!(name: '') }
  refused { Book.create!(author: ann, title: "It's one") }
  refused { Book.insert({ author_id: 99, title: 'x' }, unique_by: nil) }
  refused { Book.create!(author: ann, title: 'neg', price: -1) }
  refused { Author.connection.execute('INSERT INTO authors (created_at) VALUES (now())') }
  refused { Book.create!(author: ann, title: 'x' * 101) }
  refused { Book.find('7b1c9a52-5b0c-4c5c-8f0e-0123456789ab') }
  ann.destroy
  p Book.count
when 'transactions'
  Author.transaction do
    Author.create!(name: 'kept')
    Author.transaction(requires_new: true) { Author.create!(name: 'lost'); raise ActiveRecord::Rollback }
  end
  Author.transaction { Author.create!(name: 'lost too'); raise ActiveRecord::Rollback }
  p Author.order(:id).pluck(:name)
  kept = Author.find_by!(name: 'kept')
  kept.with_lock { kept.update!(living: false) }
  Author.transaction(isolation: :serializable) { kept.touch }
  done = 4.times.map { |at| Thread.new { ActiveRecord::Base.connection_pool.with_connection { Author.transaction { Author.create!(name: "thread #{at}") } } } }
  done.each(&:join)
  p Author.order(:name).pluck(:name), kept.reload.living
  p CONNECTION.select_value("SELECT pg_try_advisory_lock(42)"), CONNECTION.get_advisory_lock(7), CONNECTION.release_advisory_lock(7)
  p CONNECTION.exec_query('SELECT $1::int + 1 AS n', 'SQL', [[nil, 41]]).to_a
  CONNECTION.execute("SET statement_timeout = '200ms'")
  refused { CONNECTION.execute('SELECT pg_sleep(5)') }
  puts Author.where(name: 'kept').explain.lines.first
end
