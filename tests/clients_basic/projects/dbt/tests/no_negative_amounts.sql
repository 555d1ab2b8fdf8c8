select * from {{ ref('orders_view') }} where amount < 0
