// A session of GORM: what it prints is compared between the servers. Arguments: the URL of the database, the feature.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Author struct {
	ID        uint
	CreatedAt time.Time
	UpdatedAt time.Time
	DeletedAt gorm.DeletedAt `gorm:"index"`
	Name      string         `gorm:"size:80;not null;uniqueIndex:authors_once,priority:1"`
	Country   string         `gorm:"size:2;default:NL;uniqueIndex:authors_once,priority:2;comment:where from"`
	Profile   *Profile
	Books     []Book `gorm:"constraint:OnDelete:CASCADE"`
}

type Profile struct {
	AuthorID uint            `gorm:"primaryKey"`
	Details  json.RawMessage `gorm:"type:jsonb;default:'{}'"`
	Chip     string          `gorm:"type:uuid;default:gen_random_uuid()"`
}

type Book struct {
	ID       int64     `gorm:"primaryKey"`
	AuthorID uint      `gorm:"not null;index:books_of,where:price > 10"`
	Title    string    `gorm:"type:text;check:books_titled,length(title) > 1"`
	Price    string    `gorm:"type:numeric(10,2)"`
	Out      time.Time `gorm:"type:date"`
	Cover    []byte
	Kept     bool  `gorm:"default:true"`
	Tags     []Tag `gorm:"many2many:book_tags"`
}

type Tag struct {
	ID   int32
	Name string `gorm:"unique"`
}

// later is what Book has become: a new column, a changed one, an index of an expression.
type later struct {
	ID    int64
	Title string  `gorm:"type:varchar(200);index:books_lower,expression:lower(title)"`
	Pages *int16  `gorm:"default:1"`
	Price float64 `gorm:"type:double precision"`
}

func (later) TableName() string { return "books" }

func check(err error) {
	if err != nil {
		log.Output(2, err.Error())
		os.Exit(1)
	}
}

func expect(err error, code string) {
	var failed *pgconn.PgError
	if !errors.As(err, &failed) || failed.Code != code {
		log.Output(2, fmt.Sprintf("%s was expected and not %v", code, err))
		os.Exit(1)
	}
	fmt.Println(failed.Code, failed.Message, failed.ConstraintName)
}

var models = []any{&Author{}, &Profile{}, &Tag{}, &Book{}}

func describe(db *gorm.DB, table string) {
	columns, err := db.Migrator().ColumnTypes(table)
	check(err)
	// It reads them in no order.
	sort.Slice(columns, func(a, b int) bool { return columns[a].Name() < columns[b].Name() })
	for _, column := range columns {
		nullable, _ := column.Nullable()
		value, has := column.DefaultValue()
		primary, _ := column.PrimaryKey()
		unique, _ := column.Unique()
		length, _ := column.Length()
		precision, scale, _ := column.DecimalSize()
		comment, _ := column.Comment()
		kind, _ := column.ColumnType()
		fmt.Println(table, column.Name(), column.DatabaseTypeName(), kind, nullable, value, has, primary, unique, length, precision, scale, comment)
	}
	indexes, err := db.Migrator().GetIndexes(table)
	check(err)
	lines := []string{}
	for _, index := range indexes {
		primary, _ := index.PrimaryKey()
		unique, _ := index.Unique()
		lines = append(lines, fmt.Sprintln(table, index.Name(), index.Columns(), primary, unique))
	}
	sort.Strings(lines)
	fmt.Print(lines)
}

// migrate makes tables of models, finds nothing left to change, and follows changed models.
func migrate(db *gorm.DB) {
	check(db.AutoMigrate(models...))
	check(db.AutoMigrate(models...))
	tables, err := db.Migrator().GetTables()
	check(err)
	sort.Strings(tables)
	fmt.Println(tables, db.Migrator().CurrentDatabase())
	for _, table := range tables {
		describe(db, table)
	}
	migrator := db.Migrator()
	fmt.Println(migrator.HasTable("books"), migrator.HasTable("none"), migrator.HasColumn(&Book{}, "Title"), migrator.HasConstraint(&Book{}, "books_titled"),
		migrator.HasConstraint(&Author{}, "Books"), migrator.HasIndex(&Book{}, "books_of"))
	check(db.AutoMigrate(&later{}))
	describe(db, "books")
	check(migrator.RenameColumn(&later{}, "pages", "sheets"))
	check(migrator.DropColumn(&later{}, "sheets"))
	check(migrator.DropIndex(&later{}, "books_lower"))
	check(migrator.AlterColumn(&Book{}, "Price"))
	check(migrator.AlterColumn(&Book{}, "Title"))
	check(migrator.RenameIndex(&Book{}, "books_of", "books_by"))
	check(migrator.RenameIndex(&Book{}, "books_by", "books_of"))
	check(migrator.CreateView("dear", gorm.ViewOption{Query: db.Model(&Book{}).Where("price > ?", 100)}))
	check(migrator.DropView("dear"))
	check(migrator.RenameTable("tags", "labels"))
	check(migrator.RenameTable("labels", "tags"))
	describe(db, "books")
}

// queries writes models with their associations and reads them back.
func queries(db *gorm.DB) {
	ann := Author{Name: "Ann", Profile: &Profile{Details: json.RawMessage(`{"a": [1, "x"]}`), Chip: "7b1c9a52-5b0c-4c5c-8f0e-0123456789ab"}}
	for number := 1; number <= 12; number++ {
		ann.Books = append(ann.Books, Book{Title: fmt.Sprint("title ", number), Price: fmt.Sprint(number, ".50"), Cover: []byte{0, 255},
			Out: time.Date(2024, 2, number, 0, 0, 0, 0, time.UTC), Kept: number%2 == 0, Tags: []Tag{{ID: int32(number%3 + 1), Name: fmt.Sprint("tag ", number%3)}}})
	}
	check(db.Create(&ann).Error)
	check(db.CreateInBatches([]Author{{Name: "Bob", Country: "BE"}, {Name: "Cyd"}, {Name: "Dan", Country: "DE"}}, 2).Error)
	var read Author
	check(db.Preload("Books", func(tx *gorm.DB) *gorm.DB { return tx.Order("id").Limit(3) }).Preload("Books.Tags").Joins("Profile").First(&read, "name = ?", "Ann").Error)
	fmt.Println(read.Name, read.Country, string(read.Profile.Details), read.Profile.Chip, len(read.Books), read.Books[0].Title, read.Books[0].Price,
		read.Books[0].Out.Format(time.RFC3339), read.Books[0].Cover, read.Books[0].Kept, read.Books[0].Tags)
	var totals []struct {
		Tag   string
		Count int
		Total string
	}
	check(db.Model(&Book{}).Select("tags.name AS tag, count(*) AS count, sum(books.price) AS total").Joins("JOIN book_tags ON book_tags.book_id = books.id").
		Joins("JOIN tags ON tags.id = book_tags.tag_id").Group("tags.name").Having("count(*) > ?", 1).Order("1").Scan(&totals).Error)
	fmt.Println(totals)
	var names []string
	cheap := db.Model(&Book{}).Select("author_id").Where("price < ?", 2)
	check(db.Model(&Author{}).Where("id IN (?)", cheap).Or(db.Where("country = ?", "BE").Not("name = ?", "Cyd")).Order("name").Pluck("name", &names).Error)
	fmt.Println(names)
	var some []Book
	check(db.Where("title IN ?", []string{"title 1", "title 3", "none"}).Or("id BETWEEN @low AND @high", map[string]any{"low": 8, "high": 9}).Order("id").Limit(4).Offset(1).Find(&some).Error)
	fmt.Println(len(some), some[0].Title)
	seen := 0
	check(db.Order("id").FindInBatches(&some, 5, func(tx *gorm.DB, batch int) error {
		seen += len(some)
		return nil
	}).Error)
	fmt.Println(seen)
	var found map[string]any
	check(db.Raw("SELECT details->'a' AS a, ?::int + 1 AS n, now() > ? AS after FROM profiles", 41, time.Unix(0, 0)).Scan(&found).Error)
	fmt.Println(found["n"], found["after"])
	rows, err := db.Model(&Book{}).Order("id").Rows()
	check(err)
	for count := 0; rows.Next(); count++ {
		var one Book
		check(db.ScanRows(rows, &one))
		if count == 11 {
			fmt.Println(one.Title)
		}
	}
	check(rows.Close())
	changed := db.Model(&Book{}).Where("kept").Updates(map[string]any{"price": gorm.Expr("price * ?", 2), "kept": false})
	check(changed.Error)
	fmt.Println(changed.RowsAffected)
	var back []Book
	check(db.Model(&back).Clauses(clause.Returning{Columns: []clause.Column{{Name: "id"}, {Name: "price"}}}).Where("title = ?", "title 2").Update("price", "7").Error)
	fmt.Println(back[0].ID, back[0].Price)
	gone := db.Where("name = ?", "Dan").Delete(&Author{})
	fmt.Println(gone.RowsAffected, gone.Error)
	var living, all int64
	check(db.Model(&Author{}).Count(&living).Error)
	check(db.Unscoped().Model(&Author{}).Count(&all).Error)
	fmt.Println(living, all)
	check(db.Model(&read.Books[0]).Association("Tags").Replace([]Tag{{ID: 3}}))
	check(db.Preload("Tags").First(&some, read.Books[0].ID).Error)
	fmt.Println(some[0].Tags)
}

// upserts makes rows that are there already.
func upserts(db *gorm.DB) {
	once := clause.OnConflict{Columns: []clause.Column{{Name: "name"}, {Name: "country"}}, DoUpdates: clause.AssignmentColumns([]string{"updated_at"})}
	bob := Author{Name: "Bob", Country: "BE"}
	check(db.Clauses(once, clause.Returning{}).Create(&bob).Error)
	fmt.Println(bob.ID, bob.Country)
	nothing := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Tag{{ID: 1, Name: "tag 0"}, {ID: 50, Name: "tag 50"}})
	fmt.Println(nothing.RowsAffected, nothing.Error)
	check(db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&Tag{ID: 50, Name: "tag fifty"}).Error)
	check(db.Save(&Tag{ID: 51, Name: "tag 51"}).Error)
	var tag Tag
	check(db.Where(Tag{Name: "tag 52"}).Attrs(Tag{ID: 52}).FirstOrCreate(&tag).Error)
	check(db.Where(Tag{Name: "tag 52"}).Assign(Tag{Name: "again"}).FirstOrCreate(&tag).Error)
	var tags []Tag
	check(db.Order("id").Find(&tags).Error)
	fmt.Println(tags)
}

// transactions nests blocks, locks rows, works from several goroutines, and fails.
func transactions(db *gorm.DB) {
	expect(db.Create(&Author{Name: "Ann", Country: "NL"}).Error, "23505")
	expect(db.Create(&Book{AuthorID: 999, Title: "of nobody", Price: "1", Out: time.Now()}).Error, "23503")
	expect(db.Create(&Book{AuthorID: 1, Title: "x", Price: "1", Out: time.Now()}).Error, "23514")
	expect(db.Exec("INSERT INTO authors (name) VALUES (NULL)").Error, "23502")
	expect(db.Raw("SELECT nothing").Scan(&struct{}{}).Error, "42703")
	fmt.Println(db.First(&Author{}, 999).Error)
	failed := errors.New("no")
	fmt.Println(db.Transaction(func(tx *gorm.DB) error {
		check(tx.Create(&Tag{ID: 60, Name: "outer"}).Error)
		fmt.Println(tx.Transaction(func(inner *gorm.DB) error {
			check(inner.Create(&Tag{ID: 61, Name: "inner"}).Error)
			return failed
		}))
		check(tx.SavePoint("here").Error)
		expect(tx.Create(&Tag{ID: 60, Name: "again"}).Error, "23505")
		check(tx.RollbackTo("here").Error)
		return tx.Create(&Tag{ID: 62, Name: "last"}).Error
	}))
	check(db.Exec("CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL)").Error)
	check(db.Exec("INSERT INTO counters VALUES (1, 0)").Error)
	var all sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := 0; number < 10; number++ {
				check(db.Transaction(func(tx *gorm.DB) error {
					var n int
					check(tx.Table("counters").Clauses(clause.Locking{Strength: "UPDATE"}).Where("id = 1").Pluck("n", &n).Error)
					return tx.Table("counters").Where("id = 1").Update("n", n+1).Error
				}, &sql.TxOptions{Isolation: sql.LevelReadCommitted}))
			}
		}()
	}
	all.Wait()
	var n int
	check(db.Table("counters").Select("n").Scan(&n).Error)
	var ids []int
	check(db.Model(&Tag{}).Where("id >= 60").Order("id").Pluck("id", &ids).Error)
	fmt.Println(n, ids)
	short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	err := db.WithContext(short).Exec("SELECT pg_sleep(20)").Error
	fmt.Println(err != nil)
}

func main() {
	db, err := gorm.Open(postgres.Open(os.Args[1]), &gorm.Config{Logger: logger.Discard, PrepareStmt: os.Args[2] == "upserts"})
	check(err)
	pool, err := db.DB()
	check(err)
	defer pool.Close()
	map[string]func(*gorm.DB){"migrate": migrate, "queries": queries, "upserts": upserts, "transactions": transactions}[os.Args[2]](db)
}
