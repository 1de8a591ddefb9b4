{#- APPLY_CHANGES: a changelog merged into a table, as two statements of plain Spark SQL over Delta. Rendered by `streamtime.apply_changes`,
    and a macro of the dbt package. Names come quoted.

    target      the table; deletions: the table beside it that remembers the keys which were deleted, and when
    source      a relation with the changes, or a query in parentheses
    columns     those of the changes that the table has; keys and sequence among them
    ties        those of them that decide between changes of one key and one sequence: the largest values win
    deleted     a condition that marks deletions; skipped: one that marks rows which are no changes
-#}
{%- macro streamtime_changes(source, columns, keys, sequence, deleted, skipped) -%}
SELECT {{ columns | join(', ') }}, coalesce({{ deleted }}, false) AS `__gone`
  FROM {{ source }} AS `__source`
  WHERE {% for c in keys + sequence %}{{ c }} IS NOT NULL AND {% endfor %}NOT coalesce({{ skipped }}, false)
{%- endmacro -%}

{%- macro streamtime_remember_deletions(deletions, source, columns, keys, sequence, deleted, skipped, scd) -%}
MERGE INTO {{ deletions }} AS d
USING (
  SELECT {{ keys | join(', ') }}, {% if scd == 1 %}max(struct({{ sequence | join(', ') }})) AS `__at`{% else %}struct({{ sequence | join(', ') }}) AS `__at`{% endif %}

  FROM ({{ streamtime.streamtime_changes(source, columns, keys, sequence, deleted, skipped) }})
  WHERE `__gone`
  GROUP BY {{ (keys if scd == 1 else keys + sequence) | join(', ') }}
) AS s
ON {% for k in keys %}d.{{ k }} = s.{{ k }}{{ ' AND ' if not loop.last }}{% endfor %}{% if scd == 2 %} AND {% for c in sequence %}d.{{ c }} = s.`__at`.{{ c }}{{ ' AND ' if not loop.last }}{% endfor %}{% endif %}

{% if scd == 1 -%}
WHEN MATCHED AND s.`__at` > struct({% for c in sequence %}d.{{ c }} AS {{ c }}{{ ', ' if not loop.last }}{% endfor %}) THEN UPDATE SET {% for c in sequence %}{{ c }} = s.`__at`.{{ c }}{{ ', ' if not loop.last }}{% endfor %}

{% endif -%}
WHEN NOT MATCHED THEN INSERT ({{ (keys + sequence) | join(', ') }}) VALUES ({% for k in keys %}s.{{ k }}, {% endfor %}{% for c in sequence %}s.`__at`.{{ c }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro -%}

{%- macro streamtime_apply_newest(target, deletions, source, columns, keys, sequence, ties, deleted, skipped) -%}
{%- set others = [] -%}
{%- for c in columns if c not in keys + sequence %}{% set _ = others.append(c) %}{% endfor -%}
MERGE INTO {{ target }} AS t
USING (
  WITH changes AS (
  {{ streamtime.streamtime_changes(source, columns, keys, sequence, deleted, skipped) }}
  ),
  events AS (
    SELECT {{ columns | join(', ') }}, `__gone` FROM changes
    UNION ALL
    SELECT {% for c in columns %}{{ ('d.' ~ c) if c in keys + sequence else ('NULL AS ' ~ c) }}, {% endfor %}true
    FROM {{ deletions }} AS d LEFT SEMI JOIN changes AS c ON {% for k in keys %}d.{{ k }} = c.{{ k }}{{ ' AND ' if not loop.last }}{% endfor %}

  )
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY {{ keys | join(', ') }}
      ORDER BY {% for c in sequence %}{{ c }} DESC, {% endfor %}`__gone` DESC{% for c in ties %}, {{ c }} DESC NULLS LAST{% endfor %}) AS `__place`
    FROM events)
  WHERE `__place` = 1
) AS s
ON {% for k in keys %}t.{{ k }} = s.{{ k }}{{ ' AND ' if not loop.last }}{% endfor %}

WHEN MATCHED AND s.`__gone` AND struct({% for c in sequence %}s.{{ c }}{{ ', ' if not loop.last }}{% endfor %}) >= struct({% for c in sequence %}t.{{ c }}{{ ', ' if not loop.last }}{% endfor %}) THEN DELETE
WHEN MATCHED AND NOT s.`__gone` AND struct({% for c in sequence + ties %}s.{{ c }}{{ ', ' if not loop.last }}{% endfor %}) > struct({% for c in sequence + ties %}t.{{ c }}{{ ', ' if not loop.last }}{% endfor %}) THEN UPDATE SET {% for c in sequence + others %}{{ c }} = s.{{ c }}{{ ', ' if not loop.last }}{% endfor %}

WHEN NOT MATCHED AND NOT s.`__gone` THEN INSERT ({{ columns | join(', ') }}) VALUES ({% for c in columns %}s.{{ c }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro -%}

{%- macro streamtime_apply_history(target, deletions, source, columns, keys, sequence, ties, deleted, skipped) -%}
{%- set at = sequence[0] -%}
{%- set others = [] -%}
{%- for c in columns if c not in keys + sequence %}{% set _ = others.append(c) %}{% endfor -%}
MERGE INTO {{ target }} AS t
USING (
  WITH changes AS (
  {{ streamtime.streamtime_changes(source, columns, keys, sequence, deleted, skipped) }}
  ),
  events AS (
    SELECT {{ columns | join(', ') }}, `__gone` FROM changes
    UNION ALL
    SELECT {% for c in columns %}h.{{ c }}, {% endfor %}false
    FROM {{ target }} AS h LEFT SEMI JOIN changes AS c ON {% for k in keys %}h.{{ k }} = c.{{ k }}{{ ' AND ' if not loop.last }}{% endfor %}

    UNION ALL
    SELECT {% for c in columns %}{{ ('d.' ~ c) if c in keys + sequence else ('NULL AS ' ~ c) }}, {% endfor %}true
    FROM {{ deletions }} AS d LEFT SEMI JOIN changes AS c ON {% for k in keys %}d.{{ k }} = c.{{ k }}{{ ' AND ' if not loop.last }}{% endfor %}

  ),
  single AS (
    SELECT * FROM (
      SELECT *, row_number() OVER (
        PARTITION BY {{ (keys + sequence) | join(', ') }}
        ORDER BY `__gone` DESC{% for c in ties %}, {{ c }} DESC NULLS LAST{% endfor %}) AS `__place`
      FROM events)
    WHERE `__place` = 1
  )
  SELECT *, lead({{ at }}) OVER (PARTITION BY {{ keys | join(', ') }} ORDER BY {{ at }}) AS `__ends` FROM single
) AS s
ON {% for k in keys %}t.{{ k }} = s.{{ k }} AND {% endfor %}t.valid_from = s.{{ at }}
WHEN MATCHED AND s.`__gone` THEN DELETE
WHEN MATCHED AND NOT (t.valid_to <=> s.`__ends`{% for c in ties %} AND t.{{ c }} <=> s.{{ c }}{% endfor %}) THEN UPDATE SET {% for c in others %}{{ c }} = s.{{ c }}, {% endfor %}valid_to = s.`__ends`
WHEN NOT MATCHED AND NOT s.`__gone` THEN INSERT ({{ columns | join(', ') }}, valid_from, valid_to) VALUES ({% for c in columns %}s.{{ c }}, {% endfor %}s.{{ at }}, s.`__ends`)
{%- endmacro -%}
