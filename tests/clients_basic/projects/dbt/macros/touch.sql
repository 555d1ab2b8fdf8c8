{% macro touch() %}
  {% do run_query("update " ~ ref('customers') ~ " set name = name || '!' where id = 1") %}
  {% do run_query("delete from " ~ ref('customers') ~ " where id = 2") %}
  {% do run_query("commit") %}
{% endmacro %}
