{{ config(materialized='incremental', incremental_strategy='append', on_schema_change='append_new_columns') }}
select id, customer_id, (amount * {{ var('factor', 1) }})::numeric(10,2) as amount, changed_at{% if var('more', false) %}, sku{% endif %}
from {{ ref('orders') }}
{% if is_incremental() %}
where id > 50 or changed_at >= (select max(changed_at) from {{ this }})
{% endif %}
