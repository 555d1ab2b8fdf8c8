//! tokio-postgres: rows in the binary form, COPY, pipelines, LISTEN, cancelling.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures_util::{future, pin_mut, stream, SinkExt, StreamExt, TryStreamExt};
use serde_json::{json, Value};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, IsolationLevel, NoTls, SimpleQueryMessage};
use uuid::Uuid;

use crate::Failed;

async fn connected(url: &str) -> Result<Client, Failed> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn refused<T>(result: Result<T, tokio_postgres::Error>) {
    match result {
        Ok(_) => panic!("it should have failed"),
        Err(error) => match error.as_db_error() {
            Some(told) => println!(
                "{} {} {:?} {:?}",
                told.code().code(),
                told.message(),
                told.constraint(),
                told.column()
            ),
            None => panic!("{error}"),
        },
    }
}

pub async fn rows(url: &str) -> Result<(), Failed> {
    let client = connected(url).await?;
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'fine');
             CREATE DOMAIN short AS text CHECK (length(VALUE) < 10);
             CREATE TABLE things (id int8 PRIMARY KEY, small int2, whole int4, letter \"char\", real_ float4, double_ float8,
                 name text NOT NULL, code varchar(20), said bool, raw bytea, day date, clock time, at timestamp, moment timestamptz,
                 chip uuid, details jsonb, old json, net inet, tags text[], numbers int4[], feeling mood, brief short, nick name, ref oid)",
        )
        .await?;
    let insert = client
        .prepare("INSERT INTO things VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,NULL,$21::text,$22,$23)")
        .await?;
    println!(
        "{:?}",
        insert.params().iter().map(Type::name).collect::<Vec<_>>()
    );
    let (day, clock) = (
        NaiveDate::from_ymd_opt(2024, 2, 29).unwrap(),
        NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).unwrap(),
    );
    let at: NaiveDateTime = day.and_time(clock);
    let moment: DateTime<Utc> = at.and_utc();
    let net: IpAddr = "10.1.2.3".parse()?;
    let chip = Uuid::parse_str("7b1c9a52-5b0c-4c5c-8f0e-0123456789ab")?;
    for id in 1i64..=3 {
        let count = client
            .execute(
                &insert,
                &[
                    &id,
                    &(id as i16),
                    &Some(-5i32),
                    &97i8,
                    &1.5f32,
                    &f64::NAN,
                    &"it's",
                    &"code",
                    &true,
                    &&[0u8, 255][..],
                    &day,
                    &clock,
                    &at,
                    &moment,
                    &chip,
                    &json!({"a": [1, "x"]}),
                    &json!(null),
                    &net,
                    &vec![Some("a"), None, Some("b,c")],
                    &vec![1i32, 2],
                    &"brief",
                    &"nick",
                    &5u32,
                ],
            )
            .await?;
        assert_eq!(count, 1);
    }
    client
        .execute(
            "UPDATE things SET feeling = $1::text::mood WHERE id = $2",
            &[&"fine", &1i64],
        )
        .await?;
    let select = client
        .prepare("SELECT * FROM things WHERE id = ANY($1) ORDER BY id")
        .await?;
    for column in select.columns() {
        print!(
            "{} {} {:?}; ",
            column.name(),
            column.type_().name(),
            column.type_().kind()
        );
    }
    println!();
    for row in client.query(&select, &[&vec![1i64, 3, 99]]).await? {
        println!(
            "{} {} {:?} {} {} {} {} {:?} {}",
            row.get::<_, i64>(0),
            row.get::<_, i16>(1),
            row.get::<_, Option<i32>>(2),
            row.get::<_, i8>(3),
            row.get::<_, f32>(4),
            row.get::<_, f64>(5),
            row.get::<_, String>(6),
            row.get::<_, Option<&str>>(7),
            row.get::<_, bool>(8)
        );
        println!(
            "{:?} {} {} {} {} {} {} {} {} {:?} {:?} {} {} {}",
            row.get::<_, &[u8]>(9),
            row.get::<_, NaiveDate>(10),
            row.get::<_, NaiveTime>(11),
            row.get::<_, NaiveDateTime>(12),
            row.get::<_, DateTime<Utc>>(13),
            row.get::<_, Uuid>(14),
            row.get::<_, Value>(15),
            row.get::<_, Value>(16),
            row.get::<_, IpAddr>(17),
            row.get::<_, Vec<Option<String>>>(18),
            row.get::<_, Vec<i32>>(19),
            row.get::<_, &str>("brief"),
            row.get::<_, &str>("nick"),
            row.get::<_, u32>("ref")
        );
        println!("{}", row.try_get::<_, i32>("feeling").is_err());
    }
    let found = client
        .query_opt("SELECT 1 FROM things WHERE id = $1", &[&77i64])
        .await?;
    println!("{}", found.is_none());
    let typed = client
        .prepare_typed("SELECT $1 || '!', $2 + 1", &[Type::TEXT, Type::INT8])
        .await?;
    let row = client.query_one(&typed, &[&"typed", &41i64]).await?;
    println!("{} {}", row.get::<_, &str>(0), row.get::<_, i64>(1));
    let stream = client
        .query_raw(
            "SELECT g::int4, sum(g) OVER (ORDER BY g) FROM generate_series(1, $1) AS g",
            [5i32],
        )
        .await?;
    pin_mut!(stream);
    while let Some(row) = stream.try_next().await? {
        print!("{} {}; ", row.get::<_, i32>(0), row.get::<_, i64>(1));
    }
    println!();
    for message in client
        .simple_query(
            "SELECT 1 AS a, NULL AS b; UPDATE things SET said = false WHERE id < 3; SELECT 'x'",
        )
        .await?
    {
        match message {
            SimpleQueryMessage::Row(row) => println!(
                "{:?} {:?}",
                row.columns().len(),
                (row.get(0), row.try_get(1).ok().flatten())
            ),
            SimpleQueryMessage::CommandComplete(count) => println!("{count}"),
            _ => println!("described"),
        }
    }
    let pairs = client.query("SELECT ROW(1, 'x'::text)::text, ARRAY[['a','b'],['c','d']]::text, '[3,9)'::int4range::text", &[]).await?;
    println!(
        "{} {} {}",
        pairs[0].get::<_, &str>(0),
        pairs[0].get::<_, &str>(1),
        pairs[0].get::<_, &str>(2)
    );
    Ok(())
}

pub async fn copies(url: &str) -> Result<(), Failed> {
    let client = connected(url).await?;
    client
        .batch_execute("CREATE TABLE kept (id int4 PRIMARY KEY, name text, at timestamptz)")
        .await?;
    let sink = client
        .copy_in("COPY kept FROM STDIN WITH (FORMAT csv)")
        .await?;
    pin_mut!(sink);
    let lines = (1..=500).map(|id| {
        Ok::<_, tokio_postgres::Error>(Bytes::from(format!(
            "{id},\"name, {id}\",2024-02-29 12:00:00+00\n"
        )))
    });
    let mut lines = stream::iter(lines);
    sink.send_all(&mut lines).await?;
    println!("{}", sink.finish().await?);
    let types = [Type::INT4, Type::TEXT, Type::TIMESTAMPTZ];
    let writer = BinaryCopyInWriter::new(
        client
            .copy_in("COPY kept FROM STDIN (FORMAT binary)")
            .await?,
        &types,
    );
    pin_mut!(writer);
    let moment = SystemTime::UNIX_EPOCH + Duration::from_micros(1_709_208_000_123_456);
    for id in 501i32..=1000 {
        writer
            .as_mut()
            .write(&[&id, &None::<&str>, &moment])
            .await?;
    }
    println!("{}", writer.finish().await?);
    let reader = BinaryCopyOutStream::new(client.copy_out("COPY (SELECT * FROM kept WHERE id % 250 = 0 ORDER BY id) TO STDOUT (FORMAT binary)").await?, &types);
    pin_mut!(reader);
    while let Some(row) = reader.try_next().await? {
        println!(
            "{} {:?} {:?}",
            row.get::<i32>(0),
            row.get::<Option<&str>>(1),
            row.get::<DateTime<Utc>>(2)
        );
    }
    let text: Vec<Bytes> = client
        .copy_out("COPY (SELECT id, name FROM kept WHERE id IN (1, 900) ORDER BY 1) TO STDOUT")
        .await?
        .try_collect()
        .await?;
    println!("{}", String::from_utf8(text.concat())?.replace('\n', ";"));
    let sink = client.copy_in("COPY kept FROM STDIN").await?;
    pin_mut!(sink);
    sink.send(Bytes::from("1\tagain\t\\N\n")).await?;
    refused(sink.finish().await);
    let left = client.copy_in::<_, Bytes>("COPY kept FROM STDIN").await?;
    drop(left);
    println!(
        "{}",
        client
            .query_one("SELECT count(*) FROM kept", &[])
            .await?
            .get::<_, i64>(0)
    );
    Ok(())
}

pub async fn transactions(url: &str) -> Result<(), Failed> {
    let (mut client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                if told
                    .send((
                        notification.channel().to_owned(),
                        notification.payload().to_owned(),
                    ))
                    .is_err()
                {
                    return;
                }
            }
        }
    });
    client.batch_execute("CREATE TABLE counters (id int4 PRIMARY KEY, n int4 NOT NULL CHECK (n < 1000)); INSERT INTO counters VALUES (1, 0)").await?;
    client.batch_execute("LISTEN news").await?;
    let mut outer = client.transaction().await?;
    outer
        .execute("INSERT INTO counters VALUES (2, 0)", &[])
        .await?;
    let inner = outer.transaction().await?;
    refused(
        inner
            .execute("INSERT INTO counters VALUES (1, 0)", &[])
            .await,
    );
    inner.rollback().await?;
    let point = outer.savepoint("here").await?;
    refused(point.execute("UPDATE counters SET n = 1000", &[]).await);
    point.rollback().await?;
    outer
        .execute("SELECT pg_notify('news', $1)", &[&"of it"])
        .await?;
    let portal = outer
        .bind("SELECT g FROM generate_series(1, 10) AS g", &[])
        .await?;
    println!(
        "{} {} {}",
        outer.query_portal(&portal, 4).await?.len(),
        outer.query_portal(&portal, 4).await?.len(),
        outer.query_portal(&portal, 4).await?.len()
    );
    outer.commit().await?;
    println!(
        "{:?}",
        tokio::time::timeout(Duration::from_secs(20), heard.recv()).await?
    );
    let dropped = client.transaction().await?;
    dropped.execute("DELETE FROM counters", &[]).await?;
    drop(dropped);
    let read = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .deferrable(true)
        .start()
        .await?;
    refused(read.execute("DELETE FROM counters", &[]).await);
    read.rollback().await?;
    let statements = [
        "SELECT count(*) FROM counters",
        "SELECT max(id)::int8 FROM counters",
        "SELECT $1::int8 + 1",
    ];
    let (count, most, sum) = future::try_join3(
        client.query_one(statements[0], &[]),
        client.query_one(statements[1], &[]),
        client.query_one(statements[2], &[&41i64]),
    )
    .await?;
    println!(
        "{} {} {}",
        count.get::<_, i64>(0),
        most.get::<_, i64>(0),
        sum.get::<_, i64>(0)
    );
    refused(client.query("SELECT nothing", &[]).await);
    refused(
        client
            .query("SELECT 1/(n) FROM counters WHERE id = 1", &[])
            .await,
    );
    let mut workers = Vec::new();
    for _ in 0..4 {
        let mut client = connected(url).await?;
        workers.push(tokio::spawn(async move {
            for _ in 0..10 {
                let block = client
                    .build_transaction()
                    .isolation_level(IsolationLevel::ReadCommitted)
                    .start()
                    .await?;
                let n: i32 = block
                    .query_one("SELECT n FROM counters WHERE id = 1 FOR UPDATE", &[])
                    .await?
                    .get(0);
                block
                    .execute("UPDATE counters SET n = $1 WHERE id = 1", &[&(n + 1)])
                    .await?;
                block.commit().await?;
            }
            Ok::<_, tokio_postgres::Error>(())
        }));
    }
    for worker in workers {
        worker.await??;
    }
    println!(
        "{}",
        client
            .query_one("SELECT n FROM counters WHERE id = 1", &[])
            .await?
            .get::<_, i32>(0)
    );
    let token = client.cancel_token();
    let sleeping = client.query("SELECT pg_sleep(20)", &[]);
    let (slept, cancelled) = future::join(sleeping, async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        token.cancel_query(NoTls).await
    })
    .await;
    cancelled?;
    refused(slept);
    Ok(())
}
