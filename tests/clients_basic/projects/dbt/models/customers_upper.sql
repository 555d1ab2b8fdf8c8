{{ config(materialized='table', unlogged=true, post_hook="create index if not exists customers_upper_name on {{ this }} (name)") }}
select * from {{ ref('only_inline') }}
