/* execution_audit.c - see execution_audit.h. */
#include "daemon/execution/execution_audit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "daemon/audit/fact_lines.h"
#include "daemon/node/core_private.h"
#include "daemon/output/output_log.h"
#include "lib/base/hex.h"
#include "lib/base/own.h"
#include "lib/base/sha256.h"

#define DIGEST_LOG (64U << 10) /* bytes of a log hashed at once */
#define DIGEST_READS 64

void execution_audit_started(const struct execution *x, struct execution_audit *ret)
{
	const struct store_execution *row = &x->row;

	hex_encode(row->command_hash, sizeof(row->command_hash), ret->command);
	(void)fact_lines_print(ret->facts, sizeof(ret->facts),
			       "user\t%s\ntimeout_ms\t%llu\n?language\t%s\n", row->user,
			       (unsigned long long)row->timeout_ms, row->language);
	ret->more = (struct event_more){ .facts = ret->facts,
					 .sealed = { { "command_sha256", ret->command },
						     { "cwd", row->cwd } } };
}

/* False: it is too long, or cannot be read. */
static bool hash_streams(int fd, struct sha256 sums[OUTPUT_STREAMS])
{
	uint8_t bytes[DIGEST_LOG / 4];
	struct output_chunk chunk;
	uint64_t cursor = 0;
	struct err e;
	int got;

	for (unsigned i = 0; i < OUTPUT_STREAMS; i++)
		sha256_init(&sums[i]);
	for (unsigned i = 0; i < DIGEST_READS; i++) {
		got = output_read(fd, &cursor, &chunk, bytes, sizeof(bytes), &e);
		if (got <= 0)
			return got == 0;
		if (chunk.stream != OUTPUT_CUT)
			sha256_add(&sums[output_index(chunk.stream)], bytes, chunk.len);
	}
	return false;
}

static size_t add_digests(const struct execution *x, char *ret, size_t cap)
{
	static const char *const names[OUTPUT_STREAMS] = { "stdout", "stderr", "result" };
	struct sha256 sums[OUTPUT_STREAMS];
	uint8_t hash[SHA256_SIZE];
	char hex[2 * SHA256_SIZE + 1];
	size_t n = 0;
	OWN_FD fd = -1;

	if (x->log.size == 0 || x->log.size > DIGEST_LOG)
		return 0;
	fd = output_log_open(x->session->core->output_fd, x->log.name, O_RDONLY);
	if (fd < 0 || !hash_streams(fd, sums))
		return 0;
	for (unsigned i = 0; i < OUTPUT_STREAMS; i++) {
		if (x->log.written[i] == 0)
			continue;
		sha256_end(&sums[i], hash);
		hex_encode(hash, sizeof(hash), hex);
		n += (size_t)snprintf(ret + n, cap - n, "%s_sha256\t%s\n", names[i], hex);
	}
	return n;
}

void execution_audit_ended(const struct execution *x, struct execution_audit *ret)
{
	const struct store_execution *row = &x->row;
	uint64_t ms = row->ended_ms > row->started_ms ? row->ended_ms - row->started_ms : 0;
	size_t cap = sizeof(ret->facts);
	size_t n = (size_t)snprintf(
		ret->facts, cap, "duration_ms\t%llu\nbytes\t%llu\n%s", (unsigned long long)ms,
		(unsigned long long)(row->out_bytes + row->err_bytes + row->result_bytes),
		row->truncated ? "cut\ttrue\n" : "");

	n += add_digests(x, ret->facts + n, cap - n);
	if (row->output_open && !x->leftovers) /* programs that it left write to it still */
		(void)snprintf(ret->facts + n, cap - n, "output\topen\n");
	ret->more = (struct event_more){ .facts = ret->facts };
}
