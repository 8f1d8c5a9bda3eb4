#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compose.h"
#include "io.h"
#include "member.h"
#include "pack.h"
#include "id_match.h"
#include "progress.h"
#include "saved_file.h"
#include "units.h"
#include "unpack.h"

/* "/v1/sessions/{id}/files[/part]?path=...&user=..." */
static void place_target(struct target *t, const struct transfer_place *p, const char *part)
{
	id_match_target(t, p->session, "files");
	if (part != NULL)
		target_part(t, part);
	target_query(t, "path", p->path);
	target_query(t, "user", p->user);
}

int transfer_stat(struct api_call *a, const struct transfer_place *p, enum transfer_kind *ret,
		  unsigned *ret_mode, struct err *e)
{
	OWN_JSON *entry = NULL;
	struct target t;
	const char *type;

	place_target(&t, p, "stat");
	target_query(&t, "follow", "true");
	*ret = TRANSFER_MISSING;
	if (api_call_json(a, "GET", &t, NULL, &entry, e) < 0)
		return a->status == 404 && strcmp(a->code, "file_not_found") == 0 ? 0 : -1;
	type = member_text(entry, "type", "");
	if (ret_mode != NULL)
		*ret_mode = (unsigned)strtoul(member_text(entry, "mode", "0644"), NULL, 8);
	*ret = strcmp(type, "file") == 0	? TRANSFER_FILE
	       : strcmp(type, "directory") == 0 ? TRANSFER_DIRECTORY
						: TRANSFER_OTHER;
	return 0;
}

struct upload_source {
	int fd;
	struct progress progress;
};

static ssize_t feed(void *arg, void *buf, size_t cap, struct err *e)
{
	struct upload_source *f = arg;
	ssize_t n;

	do
		n = read(f->fd, buf, cap);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "read %.150s", f->progress.name);
	progress_add(&f->progress, (size_t)n);
	return n;
}

static int answer_of(struct api_call *a, json_t **ret, struct err *e)
{
	OWN_MEM char *text = NULL;
	size_t len = 0;

	*ret = NULL;
	if (client_read_all(a->client, API_CALL_ANSWER_MAX, &text, &len, e) < 0)
		return -1;
	*ret = len == 0 ? NULL : json_loadb(text, len, 0, NULL);
	return 0;
}

int transfer_send_file(struct api_call *a, const struct transfer_place *p, int fd, const char *name,
		       json_t **ret, struct err *e)
{
	struct upload_source f = { .fd = fd };
	struct client_request r = { .method = "PUT",
				    .type = "application/octet-stream",
				    .source = feed,
				    .source_arg = &f };
	struct target t;
	struct stat st;
	char mode[8];
	int result;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "%.150s", name);
	place_target(&t, p, NULL);
	if (S_ISREG(st.st_mode)) {
		(void)snprintf(mode, sizeof(mode), "%04o", (unsigned)(st.st_mode & 0777));
		target_query(&t, "mode", mode);
		r.source_len = (uint64_t)st.st_size;
		if (st.st_size == 0)
			r.source = NULL;
	}
	progress_init(&f.progress, name, S_ISREG(st.st_mode) ? r.source_len : UINT64_MAX);
	result = api_call_send(a, &r, &t, e);
	progress_end(&f.progress);
	return result < 0 ? -1 : answer_of(a, ret, e);
}

static int make_directory(struct api_call *a, const struct transfer_place *p, struct err *e)
{
	OWN_JSON *body = json_object();
	struct target t;

	id_match_target(&t, p->session, "files");
	target_part(&t, "mkdir");
	if (compose_text(body, "path", "the path", p->path, e) < 0 ||
	    compose_text(body, "user", "--user", p->user, e) < 0)
		return -1;
	if (json_object_set_new(body, "parents", json_true()) < 0)
		return err_set(e, ERR_SYSTEM, "out of memory");
	return api_call_json(a, "POST", &t, body, NULL, e);
}

int transfer_send_tree(struct api_call *a, const struct transfer_place *p, const char *dir,
		       json_t **ret, struct err *e)
{
	struct upload_source f = { .fd = -1 };
	struct client_request r = {
		.method = "PUT", .type = "application/x-tar", .source = feed, .source_arg = &f
	};
	struct err unread = { 0 };
	struct target t;
	bool skipped = false;
	pid_t child = -1;
	int sent, read;

	if (make_directory(a, p, e) < 0)
		return -1;
	f.fd = pack_start(dir, &child, e);
	if (f.fd < 0)
		return -1;
	place_target(&t, p, "tar");
	progress_init(&f.progress, dir, UINT64_MAX);
	sent = api_call_send(a, &r, &t, e);
	progress_end(&f.progress);
	fd_close(f.fd);
	read = pack_end(child, &skipped, &unread);
	if (sent < 0)
		return -1;
	if (read < 0) {
		*e = unread;
		return -1;
	}
	return answer_of(a, ret, e);
}

struct drain {
	struct api_call *a;
	uint64_t max; /* bytes that may come; 0: any number */
	struct progress progress;
};

static int too_long(const char *name, uint64_t max, struct err *e)
{
	char text[32];

	units_format_bytes(max, text, sizeof(text));
	return err_set(e, ERR_LIMIT, "%.150s: more than %s; --max-size allows more", name, text);
}

static ssize_t drain(void *arg, void *buf, size_t cap, struct err *e)
{
	struct drain *d = arg;
	ssize_t n = client_read(d->a->client, buf, cap, e);

	if (n <= 0)
		return n;
	progress_add(&d->progress, (size_t)n);
	if (d->max > 0 && d->progress.done > d->max)
		return too_long(d->progress.name, d->max, e);
	return n;
}

/* Begins to read the body of the answer, unless its length is above the limit. */
static int drain_begin(struct drain *d, const char *name, struct err *e)
{
	uint64_t length = client_length(d->a->client);

	if (d->max > 0 && length != UINT64_MAX && length > d->max)
		return too_long(name, d->max, e);
	progress_init(&d->progress, name, length);
	return 0;
}

/* Where bytes of a body go. */
typedef int put_fn(void *to, const void *bytes, size_t n, struct err *e);

static int put_fd(void *to, const void *bytes, size_t n, struct err *e)
{
	return io_write_all(*(const int *)to, bytes, n, e);
}

static int put_saved(void *to, const void *bytes, size_t n, struct err *e)
{
	return saved_file_write(to, bytes, n, e);
}

static int drain_all(struct drain *d, const char *name, put_fn *put, void *to, struct err *e)
{
	static char buffer[65536];
	ssize_t n;
	int result = 0;

	if (drain_begin(d, name, e) < 0)
		return -1;
	while (result == 0 && (n = drain(d, buffer, sizeof(buffer), e)) != 0)
		result = n < 0 ? -1 : put(to, buffer, (size_t)n, e);
	progress_end(&d->progress);
	return result;
}

/* The mode from the server, without setuid, setgid and sticky bits. */
static mode_t mode_of_answer(struct api_call *a)
{
	char text[16];
	mode_t mask = umask(0);
	unsigned mode = 0;

	(void)umask(mask);
	if (!client_header(a->client, "X-Cordon-Mode", text, sizeof(text)))
		return 0666 & ~mask;
	for (const char *c = text; *c >= '0' && *c <= '7'; c++)
		mode = (mode << 3 | (unsigned)(*c - '0')) & 07777;
	return mode & 0777 & ~mask;
}

static int save(struct drain *d, const char *to, struct err *e)
{
	struct saved_file f;
	int result = -1;

	if (saved_file_open(&f, to, e) == 0 && drain_all(d, to, put_saved, &f, e) == 0)
		result = saved_file_commit(&f, mode_of_answer(d->a), e);
	saved_file_release(&f);
	return result;
}

int transfer_get_file(struct api_call *a, const struct transfer_place *p, const char *to,
		      struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct drain d = { .a = a, .max = p->max_bytes };
	int out = STDOUT_FILENO;
	struct target t;
	struct stat st;

	place_target(&t, p, NULL);
	if (api_call_send(a, &r, &t, e) < 0)
		return -1;
	if (to == NULL)
		return drain_all(&d, p->path, put_fd, &out, e);
	/* A device or pipe is written to, not replaced. */
	if (stat(to, &st) < 0 || S_ISREG(st.st_mode))
		return save(&d, to, e);
	OWN_FD fd = open(to, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "%.150s", to);
	return drain_all(&d, to, put_fd, &fd, e);
}

int transfer_get_tar(struct api_call *a, const struct transfer_place *p, int to, struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct drain d = { .a = a, .max = p->max_bytes };
	struct target t;

	place_target(&t, p, "tar");
	if (api_call_send(a, &r, &t, e) < 0)
		return -1;
	return drain_all(&d, p->path, put_fd, &to, e);
}

int transfer_get_tree(struct api_call *a, const struct transfer_place *p, const char *to,
		      struct err *e)
{
	struct client_request r = { .method = "GET" };
	struct drain d = { .a = a, .max = p->max_bytes };
	struct unpack_count count;
	int out = STDOUT_FILENO;
	struct target t;
	int result;

	place_target(&t, p, "tar");
	if (to != NULL && mkdir(to, 0777) < 0 && errno != EEXIST)
		return err_sys(e, "%.150s", to);
	OWN_FD top = to == NULL ? -1 : open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (to != NULL && top < 0)
		return err_sys(e, "%.150s", to);
	if (api_call_send(a, &r, &t, e) < 0)
		return -1;
	if (to == NULL)
		return drain_all(&d, p->path, put_fd, &out, e);
	progress_init(&d.progress, to, UINT64_MAX);
	result = unpack_tree(top, drain, &d, &count, e);
	progress_end(&d.progress);
	if (result == 0 && count.skipped > 0)
		(void)fprintf(stderr, "cordon: %llu entries left out: neither file nor link\n",
			      (unsigned long long)count.skipped);
	return result;
}
