{{ config(materialized='ephemeral') }}
select id, name || ', ' || country as name from {{ ref('customers') }}
