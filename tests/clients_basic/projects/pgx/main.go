// A session of pgx: what it prints is compared between the servers. Arguments: the URL of the database, the feature.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

type thing struct {
	ID      int64
	Name    *string
	Price   pgtype.Numeric
	Tags    []string
	Spans   pgtype.Range[pgtype.Int4]
	Details map[string]any
	At      time.Time
	Took    pgtype.Interval
	Chip    pgtype.UUID
	Raw     []byte
}

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

// types sends and reads rows in the binary format, by every mode of execution.
func types(ctx context.Context, pool *pgxpool.Pool) {
	_, err := pool.Exec(ctx, `CREATE TABLE things (id bigint PRIMARY KEY, name text, price numeric(20,6), tags text[],
		spans int4range, details jsonb, at timestamptz, took interval, chip uuid, raw bytea)`)
	check(err)
	modes := []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec}
	for number, mode := range modes {
		name := "a 'quoted' name"
		given := thing{ID: int64(number), Name: &name, Tags: []string{"a", "b,c", ""}, Raw: []byte{0, 255, 39},
			Details: map[string]any{"a": []any{1.0, "x"}}, At: time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)}
		check(given.Price.Scan("12345678901.250000"))
		given.Spans = pgtype.Range[pgtype.Int4]{Lower: pgtype.Int4{Int32: 3, Valid: true}, Upper: pgtype.Int4{Int32: 9, Valid: true},
			LowerType: pgtype.Inclusive, UpperType: pgtype.Exclusive, Valid: true}
		check(given.Took.Scan("1 mon 2 days 03:04:05.5"))
		check(given.Chip.Scan("7b1c9a52-5b0c-4c5c-8f0e-0123456789ab"))
		_, err = pool.Exec(ctx, "INSERT INTO things VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)", mode, given.ID, given.Name,
			given.Price, given.Tags, given.Spans, given.Details, given.At, given.Took, given.Chip, given.Raw)
		check(err)
		rows, err := pool.Query(ctx, "SELECT id, name, price, tags, spans, details, at, took, chip, raw "+
			"FROM things WHERE id = $1", mode, given.ID)
		check(err)
		got, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[thing])
		check(err)
		price, _ := got.Price.Value()
		fmt.Println(mode, *got.Name, price, got.Tags, got.Spans, got.Details, got.At.UTC(), got.Took, got.Chip, got.Raw)
	}
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		var text string
		var whole int64
		check(pool.QueryRow(ctx, "SELECT $1::text || '!', $2::bigint + 1", mode, "it's", int64(41)).Scan(&text, &whole))
		fmt.Println(mode, text, whole)
	}
	var odd, even []int32
	var whole float64
	var day pgtype.Date
	check(pool.QueryRow(ctx, `SELECT array_agg(i) FILTER (WHERE i % 2 = 1), array_agg(i) FILTER (WHERE i % 2 = 0), sum(i)::float8,
		$1::date FROM generate_series(1, $2) AS i`, "2024-02-29", 6).Scan(&odd, &even, &whole, &day))
	fmt.Println(odd, even, whole, day)
}

// networks sends an inet in the binary format.
func networks(ctx context.Context, pool *pgxpool.Pool) {
	var text string
	check(pool.QueryRow(ctx, "SELECT host($1::inet)", netip.MustParsePrefix("10.1.2.3/24")).Scan(&text))
	fmt.Println(text)
}

// batches sends many statements at once, one of which fails.
func batches(ctx context.Context, pool *pgxpool.Pool) {
	batch := &pgx.Batch{}
	for number := 100; number < 150; number++ {
		batch.Queue("INSERT INTO things (id, name) VALUES ($1, $2)", number, fmt.Sprint("name ", number))
	}
	batch.Queue("SELECT count(*) FROM things").QueryRow(func(row pgx.Row) error {
		var count int
		err := row.Scan(&count)
		fmt.Println(count)
		return err
	})
	check(pool.SendBatch(ctx, batch).Close())
	failing := &pgx.Batch{}
	failing.Queue("INSERT INTO things (id) VALUES (1000)")
	failing.Queue("INSERT INTO things (id) VALUES (100)")
	expect(pool.SendBatch(ctx, failing).Close(), "23505")
	var count int
	check(pool.QueryRow(ctx, "SELECT count(*) FROM things WHERE id = 1000").Scan(&count))
	fmt.Println(count)
}

// copies loads by COPY in the binary format.
func copies(ctx context.Context, pool *pgxpool.Pool) {
	count, err := pool.CopyFrom(ctx, pgx.Identifier{"things"}, []string{"id", "name", "tags", "at"},
		pgx.CopyFromSlice(5000, func(i int) ([]any, error) {
			return []any{int64(10000 + i), fmt.Sprint("copied ", i), []string{fmt.Sprint(i)}, time.Unix(int64(i), 0)}, nil
		}))
	check(err)
	var least, most string
	check(pool.QueryRow(ctx, "SELECT min(name), max(tags[1]) FROM things WHERE id >= 10000").Scan(&least, &most))
	fmt.Println(count, least, most)
	_, err = pool.CopyFrom(ctx, pgx.Identifier{"things"}, []string{"id"}, pgx.CopyFromRows([][]any{{int64(10000)}}))
	expect(err, "23505")
}

// upserts inserts or updates, from several connections at once.
func upserts(ctx context.Context, pool *pgxpool.Pool) {
	_, err := pool.Exec(ctx, "CREATE TABLE counts (name text PRIMARY KEY, n int NOT NULL)")
	check(err)
	var group sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := 0; round < 10; round++ {
				_, err := pool.Exec(ctx, `INSERT INTO counts VALUES ($1, 1), ($2, 1)
					ON CONFLICT (name) DO UPDATE SET n = counts.n + excluded.n`, "all", fmt.Sprint("round ", round))
				check(err)
			}
		}()
	}
	group.Wait()
	rows, err := pool.Query(ctx, "SELECT name, n FROM counts ORDER BY name")
	check(err)
	_, err = pgx.ForEachRow(rows, []any{new(string), new(int)}, func() error { return nil })
	check(err)
	var all, sum int
	check(pool.QueryRow(ctx, "SELECT max(n), sum(n) FROM counts").Scan(&all, &sum))
	fmt.Println(all, sum)
}

// transactions nests them, locks, and listens.
func transactions(ctx context.Context, pool *pgxpool.Pool) {
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		inner, err := tx.Begin(ctx)
		check(err)
		_, err = inner.Exec(ctx, "INSERT INTO counts VALUES ('all', 1)")
		expect(err, "23505")
		check(inner.Rollback(ctx))
		_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7)")
		check(err)
		var free bool
		check(pool.QueryRow(ctx, "SELECT pg_try_advisory_lock(7)").Scan(&free))
		fmt.Println(free)
		var name string
		check(tx.QueryRow(ctx, "SELECT name FROM counts WHERE name = $1 FOR UPDATE", "all").Scan(&name))
		_, err = pool.Exec(ctx, "SELECT name FROM counts WHERE name = $1 FOR UPDATE NOWAIT", "all")
		expect(err, "55P03")
		return errors.New("rolled back")
	})
	fmt.Println(err)
	_, err = pool.Exec(ctx, "UPDATE counts SET n = 1 / (n - n)")
	expect(err, "22012")
	listener, err := pool.Acquire(ctx)
	check(err)
	defer listener.Release()
	_, err = listener.Exec(ctx, "LISTEN news")
	check(err)
	_, err = pool.Exec(ctx, "SELECT pg_notify('news', $1)", "hello")
	check(err)
	limited, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	notice, err := listener.Conn().WaitForNotification(limited)
	check(err)
	fmt.Println(notice.Channel, notice.Payload)
	cancelled, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = pool.Exec(cancelled, "SELECT pg_sleep(30)")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
}

func main() {
	log.SetFlags(log.Lshortfile)
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Args[1])
	check(err)
	defer pool.Close()
	features := map[string]func(context.Context, *pgxpool.Pool){
		"types": types, "networks": networks, "batches": batches, "copies": copies, "upserts": upserts, "transactions": transactions}
	features[os.Args[2]](ctx, pool)
}
