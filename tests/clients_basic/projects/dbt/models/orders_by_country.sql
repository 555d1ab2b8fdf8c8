{{ config(materialized='table', indexes=[{'columns': ['country'], 'unique': true}, {'columns': ['total'], 'type': 'btree'}]) }}
select n.country, count(*) as orders, sum(v.amount)::numeric(10,2) as total, max(v.changed_at)::date as last_day
from {{ ref('orders_view') }} as v join {{ ref('countries') }} as n on n.code = v.country
group by n.country
