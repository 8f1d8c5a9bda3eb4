#include "front/mcpservers/kept_pins.h"

#include "daemon/store/store_session.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"
#include "lib/base/str.h"

/* A lost pin only means that a change is not noticed after a restart. */
static void kept_pins_report(const char *session, const struct err *e)
{
	log_error("pins of tools are not kept", "session_id=%s why=%s", session, e->msg);
}

/* A malformed row is skipped. */
static int on_row(const struct store_mcp_pin *row, void *cookie)
{
	uint8_t hash[SHA256_SIZE];
	struct err e;

	if (hex_decode(row->hash, 2 * sizeof(hash), hash, sizeof(hash), &e) == 0)
		tool_pins_put(cookie, row->tool, hash);
	return 0;
}

void kept_pins_read(struct core *c, const char *session, struct tool_pins *p)
{
	struct err e;

	if (store_mcp_pin_each(core_store(c), session, TOOL_PINS_MAX, on_row, p, &e) < 0)
		kept_pins_report(session, &e);
}

/* The caller has opened a transaction. */
static int write_new(struct store *s, const char *session, const struct tool_pins *p, struct err *e)
{
	struct store_mcp_pin row;

	for (size_t i = 0; i < p->n; i++) {
		if (p->pins[i].kept)
			continue;
		str_copy(row.tool, p->pins[i].name);
		hex_encode(p->pins[i].hash, sizeof(p->pins[i].hash), row.hash);
		if (store_mcp_pin_add(s, session, &row, e) < 0)
			return -1;
	}
	return 0;
}

/* One transaction for all new pins. Without any nothing is written. */
void kept_pins_write(struct core *c, const char *session, struct tool_pins *p)
{
	struct store *s = core_store(c);
	size_t i = 0;
	struct err e;

	while (i < p->n && p->pins[i].kept)
		i++;
	if (i == p->n)
		return;
	if (store_begin(s, &e) < 0 || write_new(s, session, p, &e) < 0 || store_commit(s, &e) < 0) {
		store_rollback(s);
		kept_pins_report(session, &e);
		return;
	}
	for (; i < p->n; i++)
		p->pins[i].kept = true;
}

void kept_pins_delete(struct core *c, const char *session)
{
	struct err e;

	if (store_mcp_pin_delete(core_store(c), session, &e) < 0)
		kept_pins_report(session, &e);
}
