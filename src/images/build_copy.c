/* build_copy.c - operations of a build on files: COPY and WORKDIR, by built-ins of the cell's PID 1
 * (doc/file-protocol.md). See build_cell.h.
 *
 * The archive goes from its file to the cell in chunks; only the cell looks into it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "build_cell.h"
#include "build_upload.h"
#include "file_msg.h"

#define PIECE 65536
#define ENTRIES_MAX "1000000"

/* An operation that is under way. */
struct transfer {
	struct buf answer; /* records that have come */
	uint8_t chunk[FILE_MSG_CHUNK_HEAD + PIECE];
	size_t at, len; /* of the chunk: sent, and in all */
	bool ended;	/* the last chunk is the one in `chunk` */
};

static void release(struct build *b)
{
	if (b->transfer != NULL)
		buf_release(&b->transfer->answer);
	free(b->transfer);
	b->transfer = NULL;
	b->op = NULL;
	fd_close(b->archive);
	b->archive = -1;
}

void build_copy_release(struct build *b)
{
	if (b->op != NULL)
		file_op_cancel(b->op);
	release(b);
}

/* ---- input */

/* Fills the chunk from the file; an empty one is the end. */
static bool fill(struct build *b, struct transfer *t)
{
	ssize_t n = read(b->archive, t->chunk + FILE_MSG_CHUNK_HEAD, PIECE);

	if (n < 0)
		return false;
	file_msg_chunk_write(t->chunk, (uint32_t)n);
	t->at = 0;
	t->len = FILE_MSG_CHUNK_HEAD + (size_t)n;
	t->ended = n == 0;
	return true;
}

static void on_room(struct file_op *op)
{
	struct build *b = file_op_arg(op);
	struct transfer *t = b->transfer;

	while (b->archive >= 0) {
		if (t->at == t->len && t->ended) {
			file_op_end_input(op);
			return;
		}
		if (t->at == t->len && !fill(b, t)) {
			build_fail(b, "the uploaded archive cannot be read");
			return;
		}
		size_t n = file_op_input(op, t->chunk + t->at, t->len - t->at);

		if (n == 0)
			return;
		t->at += n;
	}
}

/* ---- output */

static size_t on_output(struct file_op *op, const uint8_t *data, size_t len)
{
	struct build *b = file_op_arg(op);

	buf_put(&b->transfer->answer, data, len); /* what does not fit shows at the end */
	return len;
}

/* The last record says how it ended. */
static int read_answer(struct build *b, struct file_msg *ret, struct err *e)
{
	const struct buf *a = &b->transfer->answer;
	size_t at = 0;
	bool any = false;
	int n;

	while (at < a->len && (n = file_msg_next(a->data + at, a->len - at, ret, e)) > 0) {
		any = true;
		at += (size_t)n;
	}
	if (!any || at != a->len)
		return err_set(e, ERR_SYSTEM, "the cell gave no answer");
	if (ret->kind != FILE_MSG_ERROR)
		return 0;
	*e = ret->error;
	return -1;
}

static void finish(struct build *b, const struct err *e)
{
	struct err why = { 0 };
	struct file_msg m = { 0 };
	int rc = -1;

	if (e != NULL)
		why = *e;
	else
		rc = read_answer(b, &m, &why);
	if (rc == 0 && m.kind == FILE_MSG_ENTRY)
		(void)snprintf(b->state.workdir, sizeof(b->state.workdir), "%s", m.entry.abs);
	release(b);
	if (rc < 0 && why.sys == FILE_MSG_NO_USER)
		build_fail(b, "invalid username: '%s'", b->state.user);
	else if (rc < 0)
		build_fail(b, "%s", why.msg);
	else
		b->then(b);
}

static void on_end(struct file_op *op, int status, const struct err *e)
{
	(void)status; /* the records say it, too */
	finish(file_op_arg(op), e);
}

/* ---- the start */

static void start(struct build *b, const char *const *argv, unsigned argc,
		  void (*then)(struct build *b))
{
	static const struct file_op_events events = { .on_output = on_output,
						      .on_room = on_room,
						      .on_end = on_end };
	struct session *s = build_cell_session(b);
	struct err e = { .msg = "the session of the build ended" };

	b->transfer = calloc(1, sizeof(*b->transfer));
	if (b->transfer != NULL)
		buf_init(&b->transfer->answer, 2 * (size_t)FILE_MSG_MAX);
	b->then = then;
	if (b->transfer != NULL && s != NULL)
		b->op = file_op_start_inside(s, "root", argv, argc, &events, b, &e);
	if (b->op == NULL) {
		release(b);
		build_fail(b, "%s", e.msg);
	}
}

static bool is_gzip(int fd)
{
	uint8_t magic[2] = { 0 };

	return pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) && magic[0] == 0x1f &&
	       magic[1] == 0x8b;
}

void build_copy_run(struct build *b, const struct recipe_step *s, void (*then)(struct build *b))
{
	char entry[RECIPE_PATH_MAX], dest[RECIPE_PATH_MAX], max[24], flags[3] = "";
	struct store_build_upload row;
	struct err e;

	b->archive =
		build_upload_open(b->core, b->row.tenant, b->row.template_id, s->hash, &row, &e);
	if (b->archive < 0) {
		build_fail(b, "the files of COPY %.200s were not uploaded", s->args[0]);
		return;
	}
	if (strcmp(row.digest, b->archive_digest) != 0) { /* the cache would keep it as the other */
		build_fail(b, "the files of COPY %.200s were uploaded again meanwhile", s->args[0]);
		return;
	}
	if (recipe_copy_entry(s->args[0], entry, &e) < 0) {
		build_fail(b, "%s", e.msg);
		return;
	}
	/* Without a working directory a relative path is in the user's home: the cell knows it. */
	if (s->args[1][0] == '/' || b->state.workdir[0] != '\0') {
		if (recipe_state_path(&b->state, s->args[1], "/", dest, &e) < 0) {
			build_fail(b, "%s", e.msg);
			return;
		}
	} else {
		(void)snprintf(dest, sizeof(dest), "%s", s->args[1]);
	}
	(void)snprintf(flags, sizeof(flags), "%s%s", is_gzip(b->archive) ? "z" : "",
		       dest[strlen(dest) - 1] == '/' || strcmp(s->args[1], ".") == 0 ? "/" : "");
	(void)snprintf(max, sizeof(max), "%llu",
		       (unsigned long long)core_config(b->core)->disk_max);
	{
		const char *owner = s->argc > 2 && s->args[2][0] != '\0' ? s->args[2] : "-";
		const char *mode = s->argc > 3 && s->args[3][0] != '\0' ? s->args[3] : "-";
		const char *argv[] = {
			"--for", b->state.user, "copy-in", dest, flags[0] == '\0' ? "-" : flags,
			entry,	 owner,		mode,	   max,	 ENTRIES_MAX
		};

		start(b, argv, COUNT(argv), then);
	}
}

void build_copy_workdir(struct build *b, const char *path, void (*then)(struct build *b))
{
	char real[RECIPE_PATH_MAX];
	const char *argv[] = { "--for", b->state.user, "mkdir", real, "-", "p" };
	struct err e;
	size_t n;

	if (recipe_state_path(&b->state, path, "/", real, &e) < 0) {
		build_fail(b, "%s", e.msg);
		return;
	}
	if (strcmp(real, "/") == 0) {
		(void)snprintf(b->state.workdir, sizeof(b->state.workdir), "/");
		build_go_on(b, then);
		return;
	}
	n = strlen(real);
	if (n > 1 && real[n - 1] == '/')
		real[n - 1] = '\0';
	start(b, argv, COUNT(argv), then);
}
