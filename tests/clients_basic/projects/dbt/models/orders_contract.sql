{{ config(materialized='table', contract={'enforced': true}) }}
select id, customer_id, amount::numeric(10,2) as amount, changed_at from {{ ref('orders') }}
