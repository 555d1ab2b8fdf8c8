//! Sessions of clients in Rust: what they print is compared between the servers. Arguments: the URL, the feature.

mod by_diesel;
mod by_sqlx;
mod by_tokio;

type Failed = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let words: Vec<String> = std::env::args().collect();
    let url = words[1].clone();
    match words[2].as_str() {
        "tokio_rows" => by_tokio::rows(&url).await,
        "tokio_copies" => by_tokio::copies(&url).await,
        "tokio_transactions" => by_tokio::transactions(&url).await,
        "sqlx_migrations" => by_sqlx::migrations(&url).await,
        "sqlx_rows" => by_sqlx::rows(&url).await,
        "sqlx_transactions" => by_sqlx::transactions(&url).await,
        "diesel_models" => tokio::task::spawn_blocking(move || by_diesel::models(&url)).await?,
        "diesel_transactions" => {
            tokio::task::spawn_blocking(move || by_diesel::transactions(&url)).await?
        }
        other => Err(format!("no such feature: {other}").into()),
    }
}
