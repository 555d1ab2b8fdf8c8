//! sqlx: its migrations, rows by its own cache of statements, a pool, LISTEN.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use bigdecimal::BigDecimal;
use chrono::{DateTime, NaiveDate, Utc};
use futures_util::TryStreamExt;
use serde_json::Value;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolCopyExt, PgPoolOptions, PgRow};
use sqlx::types::Json;
use sqlx::{Column, Connection, Executor, PgPool, Row, Statement, TypeInfo};
use uuid::Uuid;

use crate::Failed;

async fn pool(url: &str) -> Result<PgPool, Failed> {
    Ok(PgPoolOptions::new()
        .max_connections(4)
        .connect_with(PgConnectOptions::from_str(url)?)
        .await?)
}

fn refused<T>(result: Result<T, sqlx::Error>) {
    match result {
        Ok(_) => panic!("it should have failed"),
        Err(sqlx::Error::Database(told)) => println!(
            "{:?} {} {:?} {:?}",
            told.code(),
            told.message(),
            told.constraint(),
            told.kind()
        ),
        Err(error) => panic!("{error}"),
    }
}

fn migration(
    version: i64,
    name: &'static str,
    kind: MigrationType,
    sql: &'static str,
) -> Migration {
    Migration::new(version, Cow::from(name), kind, Cow::from(sql), false)
}

pub async fn migrations(url: &str) -> Result<(), Failed> {
    let pool = pool(url).await?;
    let first = "CREATE TYPE mood AS ENUM ('sad', 'fine');
        CREATE TABLE people (id bigserial PRIMARY KEY, name text NOT NULL UNIQUE, mood mood NOT NULL DEFAULT 'fine', fee numeric(10,2),
            born date, took interval, chip uuid, details jsonb, tags text[] NOT NULL DEFAULT '{}', at timestamptz NOT NULL DEFAULT now());";
    let mut migrator = Migrator::DEFAULT;
    migrator.migrations = Cow::from(vec![
        migration(1, "people", MigrationType::ReversibleUp, first),
        migration(
            1,
            "people",
            MigrationType::ReversibleDown,
            "DROP TABLE people; DROP TYPE mood;",
        ),
        migration(
            2,
            "names",
            MigrationType::ReversibleUp,
            "CREATE INDEX people_lower ON people (lower(name));",
        ),
        migration(
            2,
            "names",
            MigrationType::ReversibleDown,
            "DROP INDEX people_lower;",
        ),
    ]);
    migrator.run(&pool).await?;
    migrator.run(&pool).await?;
    migrator.undo(&pool, 1).await?;
    migrator.run(&pool).await?;
    let done: Vec<(i64, String, bool)> = sqlx::query_as(
        "SELECT version, description, success FROM _sqlx_migrations ORDER BY version",
    )
    .fetch_all(&pool)
    .await?;
    println!("{done:?}");
    let mut wrong = Migrator::DEFAULT;
    // One that fails keeps its lock, and the session that has it.
    wrong.set_locking(false);
    wrong.migrations = Cow::from(vec![
        migration(1, "people", MigrationType::ReversibleUp, first),
        migration(
            2,
            "names",
            MigrationType::ReversibleUp,
            "CREATE INDEX people_lower ON people (lower(name));",
        ),
        migration(
            3,
            "fails",
            MigrationType::Simple,
            "CREATE TABLE half (id int); SELECT 1/0;",
        ),
    ]);
    println!("{}", wrong.run(&pool).await.unwrap_err());
    println!(
        "{:?}",
        sqlx::query_scalar::<_, Option<String>>("SELECT to_regclass('half')::text")
            .fetch_one(&pool)
            .await?
    );
    wrong.migrations = Cow::from(vec![
        migration(1, "people", MigrationType::Simple, "SELECT 'another'"),
        migration(2, "names", MigrationType::Simple, ""),
    ]);
    println!("{}", wrong.run(&pool).await.unwrap_err());
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, sqlx::Type)]
#[sqlx(type_name = "mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Fine,
}

#[derive(Debug, sqlx::FromRow)]
struct Person {
    name: String,
    mood: Mood,
    fee: Option<BigDecimal>,
    born: Option<NaiveDate>,
    took: Option<PgInterval>,
    chip: Option<Uuid>,
    details: Option<Json<Value>>,
    tags: Vec<String>,
}

pub async fn rows(url: &str) -> Result<(), Failed> {
    let pool = pool(url).await?;
    let described = pool
        .prepare("SELECT id, mood, fee, tags, at FROM people WHERE mood = $1 AND born > $2")
        .await?;
    println!(
        "{:?}",
        described
            .columns()
            .iter()
            .map(|column| format!("{} {}", column.name(), column.type_info().name()))
            .collect::<Vec<_>>()
    );
    for (name, mood) in [
        ("Ann", Mood::Fine),
        ("Bob", Mood::Sad),
        ("it's", Mood::Fine),
    ] {
        let id: i64 = sqlx::query_scalar("INSERT INTO people (name, mood, fee, born, took, chip, details, tags) VALUES ($1,$2,$3,$4,$5,$6,$7,$8) RETURNING id")
            .bind(name)
            .bind(mood)
            .bind(BigDecimal::from_str("12345.60")?)
            .bind(NaiveDate::from_ymd_opt(1960, 2, 29))
            .bind(PgInterval { months: 1, days: 2, microseconds: 3_000_001 })
            .bind(Uuid::parse_str("7b1c9a52-5b0c-4c5c-8f0e-0123456789ab")?)
            .bind(Json(serde_json::json!({"a": [1, "x"]})))
            .bind(vec!["a", "b,c"])
            .fetch_one(&pool)
            .await?;
        println!("{id}");
    }
    let many: Vec<String> = (0..200).map(|at| format!("name {at}")).collect();
    let done = sqlx::query("INSERT INTO people (name) SELECT * FROM unnest($1::text[])")
        .bind(&many)
        .execute(&pool)
        .await?;
    println!("{}", done.rows_affected());
    let people: Vec<Person> =
        sqlx::query_as("SELECT * FROM people WHERE mood = $1 AND details IS NOT NULL ORDER BY id")
            .bind(Mood::Fine)
            .fetch_all(&pool)
            .await?;
    for one in &people {
        println!(
            "{} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            one.name,
            one.mood,
            one.fee.as_ref().map(ToString::to_string),
            one.born,
            one.took,
            one.chip,
            one.details,
            one.tags
        );
    }
    let mut names = sqlx::query("SELECT name, at FROM people WHERE name = ANY($1) ORDER BY name")
        .bind(&many[..20])
        .fetch(&pool);
    let mut count = 0;
    while let Some(row) = names.try_next().await? {
        let _: DateTime<Utc> = row.get("at");
        count += row.get::<&str, _>(0).len();
    }
    drop(names);
    println!("{count}");
    let moods: Vec<(Vec<Mood>,)> =
        sqlx::query_as("SELECT array_agg(DISTINCT mood ORDER BY mood) FROM people")
            .fetch_all(&pool)
            .await?;
    println!("{moods:?}");
    let pair: (i32, Option<String>) =
        sqlx::query_as("SELECT * FROM (VALUES (1, NULL), (2, 'x')) AS v (a, b) WHERE a = $1")
            .bind(2)
            .fetch_one(&pool)
            .await?;
    println!("{pair:?}");
    let nothing: Option<PgRow> = sqlx::query("SELECT 1 FROM people WHERE id = -1")
        .fetch_optional(&pool)
        .await?;
    println!("{}", nothing.is_none());
    let upserted: (bool, i64) = sqlx::query_as("INSERT INTO people (name) VALUES ('Ann') ON CONFLICT (name) DO UPDATE SET fee = 7 RETURNING fee = 7, id").fetch_one(&pool).await?;
    println!("{upserted:?}");
    let mut copy = pool.copy_in_raw("COPY people (name) FROM STDIN").await?;
    copy.send("copied 1\ncopied 2\n".as_bytes()).await?;
    println!("{}", copy.finish().await?);
    Ok(())
}

pub async fn transactions(url: &str) -> Result<(), Failed> {
    let pool = pool(url).await?;
    refused(
        sqlx::query("INSERT INTO people (name) VALUES ('Ann')")
            .execute(&pool)
            .await,
    );
    refused(
        sqlx::query("INSERT INTO people (name) VALUES ($1)")
            .bind(None::<String>)
            .execute(&pool)
            .await,
    );
    refused(
        sqlx::query("SELECT $1::int4 / 0")
            .bind(1)
            .execute(&pool)
            .await,
    );
    refused(sqlx::query("SELECT nothing").execute(&pool).await);
    let mut outer = pool.begin().await?;
    sqlx::query("INSERT INTO people (name) VALUES ('outer')")
        .execute(&mut *outer)
        .await?;
    let mut inner = outer.begin().await?;
    refused(
        sqlx::query("INSERT INTO people (name) VALUES ('outer')")
            .execute(&mut *inner)
            .await,
    );
    inner.rollback().await?;
    {
        let mut dropped = outer.begin().await?;
        sqlx::query("INSERT INTO people (name) VALUES ('dropped')")
            .execute(&mut *dropped)
            .await?;
    }
    outer.commit().await?;
    {
        let mut dropped = pool.begin().await?;
        sqlx::query("DELETE FROM people")
            .execute(&mut *dropped)
            .await?;
    }
    let names: Vec<String> =
        sqlx::query_scalar("SELECT name FROM people WHERE name IN ('outer', 'dropped')")
            .fetch_all(&pool)
            .await?;
    println!("{names:?}");
    let mut listener = PgListener::connect(url).await?;
    listener.listen_all(["news", "more"]).await?;
    sqlx::query("SELECT pg_notify('more', 'of it')")
        .execute(&pool)
        .await?;
    let heard = tokio::time::timeout(Duration::from_secs(20), listener.recv()).await??;
    println!("{} {}", heard.channel(), heard.payload());
    sqlx::raw_sql(
        "CREATE TABLE counted (id int4 PRIMARY KEY, n int4); INSERT INTO counted VALUES (1, 0)",
    )
    .execute(&pool)
    .await?;
    let mut workers = Vec::new();
    for _ in 0..4 {
        let pool = pool.clone();
        workers.push(tokio::spawn(async move {
            for _ in 0..10 {
                let mut block = pool
                    .begin_with("BEGIN ISOLATION LEVEL READ COMMITTED")
                    .await?;
                let n: i32 = sqlx::query_scalar("SELECT n FROM counted WHERE id = 1 FOR UPDATE")
                    .fetch_one(&mut *block)
                    .await?;
                sqlx::query("UPDATE counted SET n = $1 WHERE id = 1")
                    .bind(n + 1)
                    .execute(&mut *block)
                    .await?;
                block.commit().await?;
            }
            Ok::<_, sqlx::Error>(())
        }));
    }
    for worker in workers {
        worker.await??;
    }
    println!(
        "{}",
        sqlx::query_scalar::<_, i32>("SELECT n FROM counted")
            .fetch_one(&pool)
            .await?
    );
    let mut one = pool.acquire().await?;
    one.ping().await?;
    one.clear_cached_statements().await?;
    println!(
        "{}",
        sqlx::query_scalar::<_, i32>("SELECT n FROM counted")
            .fetch_one(&mut *one)
            .await?
    );
    Ok(())
}
