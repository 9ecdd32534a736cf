-- What Citus' function of this name does, with the means of PostgreSQL: a new, empty table becomes one that is
-- partitioned by the hash of a column, with one foreign partition on each server `node_0`, `node_1`, …. Each node gets
-- a table of the same name, with all keys and indexes. The whole has none: a foreign partition does not allow it.
CREATE FUNCTION create_distributed_table(fresh regclass, distribution_column text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    nodes CONSTANT int := (SELECT count(*) FROM pg_foreign_server);
    namespace CONSTANT text := (SELECT nspname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = fresh);
    called CONSTANT text := (SELECT relname FROM pg_class WHERE oid = fresh);
    columns CONSTANT text := (
        SELECT string_agg(
            format('%I %s', attname, format_type(atttypid, atttypmod))
                || CASE attcollation WHEN '"C"'::regcollation THEN ' COLLATE "C"' ELSE '' END
                || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END,
            ', ' ORDER BY attnum)
        FROM pg_attribute WHERE attrelid = fresh AND attnum > 0 AND NOT attisdropped);
    keys CONSTANT text := (
        SELECT string_agg(format('ALTER TABLE %I ADD %s;', called, pg_get_constraintdef(oid)), ' ')
        FROM pg_constraint WHERE conrelid = fresh);
    indexes CONSTANT text := (
        SELECT string_agg(pg_get_indexdef(indexrelid), '; ') FROM pg_index WHERE indrelid = fresh AND NOT indisprimary);
BEGIN
    EXECUTE format('DROP TABLE %s', fresh);
    EXECUTE format('CREATE TABLE %I.%I (%s) PARTITION BY HASH (%I)', namespace, called, columns, distribution_column);
    FOR node IN 0..nodes - 1 LOOP
        IF 'node_' || node <> ALL (coalesce(dblink_get_connections(), '{}')) THEN
            PERFORM dblink_connect('node_' || node, 'node_' || node);
        END IF;
        PERFORM dblink_exec('node_' || node, concat_ws(
            '; ',
            format('CREATE SCHEMA IF NOT EXISTS %I', namespace),
            format('SET search_path = %I, public', namespace),
            format('DROP TABLE IF EXISTS %I', called),
            format('CREATE TABLE %I (%s)', called, columns),
            keys,
            indexes));
        EXECUTE format(
            'CREATE FOREIGN TABLE %I.%I PARTITION OF %I.%I FOR VALUES WITH (MODULUS %s, REMAINDER %s)'
            ' SERVER %I OPTIONS (schema_name %L, table_name %L)',
            namespace, called || '_' || node, namespace, called, nodes, node, 'node_' || node, namespace, called);
    END LOOP;
END
$$;
