select o.id, o.customer_id, o.sku, o.amount, o.changed_at, c.country, p.price
from {{ ref('orders') }} as o
join {{ ref('customers') }} as c on c.id = o.customer_id
join {{ ref('products') }} as p on p.sku = o.sku
