-- Prints the declarations in the file of symbols :graph, one a line, each type before its members.
--
-- What a type gets from the extensions of a protocol is left out, because its conformance says it.
WITH
  graph AS (SELECT CAST(readfile(:graph) AS TEXT) AS json),
  symbol AS (
    SELECT
      each.value AS details,
      each.value ->> '$.identifier.precise' AS symbol,
      each.value ->> '$.kind.identifier'
        IN ('swift.class', 'swift.enum', 'swift.protocol', 'swift.struct') AS is_type,
      (SELECT group_concat(value, '.') FROM json_each(each.value, '$.pathComponents')) AS name,
      (
        SELECT group_concat(value, '.') FROM json_each(each.value, '$.pathComponents')
        WHERE key < json_array_length(each.value, '$.pathComponents') - 1
      ) AS owner
    FROM graph, json_each(graph.json, '$.symbols') AS each
    WHERE symbol NOT LIKE '%::SYNTHESIZED::%'
  ),
  declaration AS (
    SELECT
      symbol, is_type, name, owner,
      (
        SELECT
          group_concat(
            CASE
              WHEN is_type AND value ->> '$.kind' = 'identifier' THEN name
              ELSE replace(value ->> '$.spelling', char(10), ' ')
            END, '')
        FROM json_each(details, '$.declarationFragments')
      ) AS words
    FROM symbol
  ),
  conformance AS (
    SELECT DISTINCT
      each.value ->> '$.source' AS symbol,
      replace(replace(each.value ->> '$.targetFallback', 'Swift.', ''), '_Concurrency.', '')
        AS protocol,
      (
        SELECT group_concat((value ->> '$.lhs') || ': ' || (value ->> '$.rhs'), ', ')
        FROM json_each(each.value, '$.swiftConstraints')
        WHERE value ->> '$.rhs' NOT IN ('Copyable', 'Escapable')
      ) AS condition
    FROM graph, json_each(graph.json, '$.relationships') AS each
    WHERE
      each.value ->> '$.kind' = 'conformsTo'
      -- The compiler adds these by itself.
      AND protocol NOT IN ('Copyable', 'Escapable', 'SendableMetatype')
    ORDER BY protocol
  ),
  line AS (
    SELECT
      name, 1 AS rank,
      words || ifnull(': ' || (
        SELECT group_concat(protocol, ', ') FROM conformance
        WHERE conformance.symbol = declaration.symbol AND condition IS NULL), '') AS text
    FROM declaration WHERE is_type
    UNION ALL
    SELECT name, 2, 'extension ' || name || ': ' || protocol || ' where ' || condition
    FROM declaration JOIN conformance USING (symbol) WHERE condition IS NOT NULL
    UNION ALL
    SELECT name, 3, ifnull(owner || ': ', '') || words FROM declaration WHERE NOT is_type
  )
SELECT text FROM line ORDER BY name, rank, text;
