/* sealed_key.c - see sealed_key.h. */
#include "daemon/secrets/sealed_key.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/node/core.h"
#include "daemon/secrets/seal.h"
#include "daemon/session/session.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/hex.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"

#define NAME_MAX_BYTES 64
#define BOX_MAX 256 /* bytes of a sealed key */

/* A sealed key is stored as hexadecimal text, under a name of its own. */
static void box_name(const char *name, char ret[NAME_MAX_BYTES + 8])
{
	(void)snprintf(ret, NAME_MAX_BYTES + 8, "%.*s.sealed", NAME_MAX_BYTES, name);
}

/* The name is the box's subject, so a box under another name does not open. */
static int write_box(struct core *c, const char *name, const uint8_t *key, size_t len,
		     struct err *e)
{
	char text[2 * BOX_MAX + 1], sealed[NAME_MAX_BYTES + 8];
	uint8_t *box = NULL;
	size_t box_len = 0;

	if (seal_close(core_options(c)->seal, name, key, len, &box, &box_len, e) < 0)
		return -1;
	assert(box_len <= BOX_MAX);
	hex_encode(box, box_len, text);
	free(box);
	box_name(name, sealed);
	return store_meta_set(core_store(c), sealed, text, e);
}

/* 1: read. 0: there is none, or it cannot be opened any more. */
static int read_box(struct core *c, const char *name, uint8_t *ret, size_t len, struct err *e)
{
	char text[2 * BOX_MAX + 1], sealed[NAME_MAX_BYTES + 8], *value = NULL;
	uint8_t box[BOX_MAX];
	size_t n, value_len = 0;
	int opened;

	box_name(name, sealed);
	if (store_meta_get(core_store(c), sealed, text, sizeof(text), e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	n = strlen(text) / 2;
	if (hex_decode(text, strlen(text), box, n, e) < 0)
		return -1;
	opened = seal_open(core_options(c)->seal, name, box, n, &value, &value_len, e);
	if (opened < 0 || value_len != len) {
		seal_wipe(value, value_len);
		log_warn("stored key cannot be unsealed, a new one is made", "name=%s error=%s",
			 name, opened < 0 ? e->msg : "another length");
		return 0;
	}
	memcpy(ret, value, len);
	seal_wipe(value, value_len);
	if (!seal_is_current(core_options(c)->seal, box, n) && write_box(c, name, ret, len, e) < 0)
		return -1;
	return 1;
}

/* As a version before 9 kept it. 1: read. */
static int read_clear(struct core *c, const char *name, uint8_t *ret, size_t len, struct err *e)
{
	char text[2 * SEALED_KEY_MAX + 1];
	int got = store_meta_get(core_store(c), name, text, sizeof(text), e);

	if (got < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	got = hex_decode(text, strlen(text), ret, len, e);
	explicit_bzero(text, sizeof(text));
	return got < 0 ? -1 : 1;
}

/* The clear text is wiped in any case, as an interrupted start may have left it. */
int sealed_key_get(struct core *c, const char *name, uint8_t *ret, size_t len, struct err *e)
{
	int sealed = read_box(c, name, ret, len, e), clear = 0;

	assert(len <= SEALED_KEY_MAX);
	if (sealed < 0)
		return -1;
	if (sealed == 0) {
		clear = read_clear(c, name, ret, len, e);
		if (clear < 0)
			return -1;
		if (clear == 0)
			rand_bytes(ret, len);
		if (write_box(c, name, ret, len, e) < 0)
			return -1;
	}
	/* If the daemon is killed before this, the next start does it. */
	return store_meta_wipe(core_store(c), name, e);
}
