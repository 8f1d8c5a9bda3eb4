#include "daemon/images/import.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/disk/spool.h"
#include "daemon/template/template_name.h"
#include "daemon/tenant/tenant.h"
#include "lib/base/io.h"
#include "lib/base/list.h"
#include "lib/base/str.h"

#define ROOM_LEAST (64U << 20) /* on the disk, for any archive */
#define PROVENANCE_MAX 1024

static const char *const kinds[] = { "rootfs", "oci-layout", "docker-archive" };

/* An import in progress, in the list `imports`. Freed by its owner alone, with import_free(). */
struct import {
	struct import *next, **link; /* list.h */
	struct core *core;
	struct tenant *tenant;
	struct template_name name;
	char user[OCI_USER_MAX], workdir[OCI_WORKDIR_MAX];
	const char *tag;
	struct spool spool; /* the archive */
	int spare, result;  /* owned */
	void (*on_room)(void *arg);
	void *arg;
	struct storage_job survey;
	struct storage_survey_result found;
	struct oci_config config;
	bool has_config;
	uint64_t sizes[OCI_LAYERS_MAX];
	char provenance[PROVENANCE_MAX];
	struct image_make make;
	struct completions when_done;
	struct template_version *made;
};

static struct import *imports; /* in progress */

static void on_spooled(struct spool *s, const struct err *e);

/* ---- the beginning */

static int check_count(const struct tenant *t, struct err *e)
{
	unsigned all = 0, own = 0;

	for (const struct import *i = imports; i != NULL; i = i->next) {
		all++;
		own += i->tenant == t;
	}
	/* A few tenants that send slowly do not keep out one without any. */
	if (own >= IMPORT_TENANT_MAX || (all >= IMPORT_MAX && own > 0))
		return err_set_reason(e, REASON_QUOTA_TEMPLATES,
				      "%u templates are being imported already",
				      own >= IMPORT_TENANT_MAX ? own : all);
	return 0;
}

/* The tag in the name wins over the request's own. */
static int check_spec(struct import *i, const struct import_spec *spec, struct err *e)
{
	if (template_name_read(spec->name, &i->name, e) < 0)
		return -1;
	if (i->name.space[0] != '\0')
		return err_set(e, ERR_INVALID, "name: must not have an owner in it");
	if (spec->tag[0] != '\0' && i->name.tag[0] == '\0')
		str_copy(i->name.tag, spec->tag);
	if (i->name.tag[0] != '\0' && !template_name_is_tag(i->name.tag))
		return err_set(e, ERR_INVALID, "Invalid tag: %.60s", i->name.tag);
	if (spec->workdir[0] != '\0' && spec->workdir[0] != '/')
		return err_set(e, ERR_INVALID, "workdir: must be an absolute path");
	if (strlen(spec->user) >= sizeof(i->user) || strlen(spec->workdir) >= sizeof(i->workdir))
		return err_set(e, ERR_INVALID, "user or workdir: too long");
	str_copy(i->user, spec->user);
	str_copy(i->workdir, spec->workdir);
	return templates_check_name(i->core, i->name.name, e);
}

/* A file without a name. */
static int open_file(const struct core *c, struct err *e)
{
	int fd = openat(core_options(c)->state_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, "make a file in the state folder") : fd;
}

static void on_spool_room(struct spool *s)
{
	struct import *i = s->arg;

	i->on_room(i->arg);
}

static int open_files(struct import *i, struct err *e)
{
	struct layers *l = core_layers(i->core);

	if ((i->spare = open_file(i->core, e)) < 0 || (i->result = open_file(i->core, e)) < 0)
		return -1;
	i->spool.arg = i;
	i->spool.on_room = on_spool_room;
	i->spool.on_end = on_spooled;
	return spool_start(&i->spool, core_storage(i->core),
			   &(struct spool_spec){ .tenant = tenant_row(i->tenant)->id,
						 .bytes_max = IMPORT_BYTES_MAX,
						 .reserve_percent = (uint32_t)l->reserve_percent,
						 .file = -1 },
			   e);
}

struct import *import_begin(struct core *c, struct tenant *t, const struct import_spec *spec,
			    const struct store_actor *who, struct completion *w,
			    void (*on_room)(void *arg), void *arg, struct err *e)
{
	struct import *i;

	if (check_count(t, e) < 0 || layers_check_reserve(core_layers(c), ROOM_LEAST, e) < 0)
		return NULL;
	i = calloc(1, sizeof(*i));
	assert(i != NULL);
	i->core = c;
	i->tenant = t;
	i->spare = i->result = -1;
	i->survey.fd = -1;
	i->on_room = on_room;
	i->arg = arg;
	i->make.actor = *who;
	i->make.public_template = spec->public;
	LIST_PUSH(&imports, i);
	if (check_spec(i, spec, e) < 0 || open_files(i, e) < 0) {
		import_free(i);
		return NULL;
	}
	completion_begin(w, core_loop(c), &i->when_done);
	return i;
}

size_t import_put(struct import *i, const uint8_t *data, size_t len)
{
	return spool_put(&i->spool, data, len);
}

bool import_end(struct import *i)
{
	return spool_end(&i->spool);
}

/* ---- its kind */

static void import_finish(struct import *i, const struct err *e)
{
	struct completions told = { 0 };

	completions_move(&i->when_done, &told);
	completions_end_all(&told, e);
}

static int read_at(int fd, void *ret, size_t n, uint64_t at, struct err *e)
{
	ssize_t got = pread(fd, ret, n, (off_t)at);

	return got == (ssize_t)n ? 0 : err_set(e, ERR_SYSTEM, "the result of the survey is short");
}

/* The answer of a process that read the archive is checked as if the archive said it. */
static int check_found(const struct import *i, struct err *e)
{
	const struct storage_survey_result *f = &i->found;
	struct stat st;

	if (f->kind > STORAGE_SURVEY_DOCKER || f->nlayers > STORAGE_SURVEY_LAYERS_MAX ||
	    f->config_len > OCI_JSON_MAX || memchr(f->tag, '\0', sizeof(f->tag)) == NULL ||
	    fstat(f->in_spare != 0 ? i->spare : i->spool.fd, &st) < 0)
		return err_set(e, ERR_SYSTEM, "the result of the survey is malformed");
	for (uint32_t k = 0; k < f->nlayers; k++)
		if (f->layers[k].offset > (uint64_t)st.st_size ||
		    f->layers[k].size > (uint64_t)st.st_size - f->layers[k].offset)
			return err_set(e, ERR_SYSTEM, "a layer is outside of the archive");
	return 0;
}

/* has_config is set before the reading: oci_config_release() takes a half read one, too. */
static int read_config(struct import *i, struct err *e)
{
	OWN_MEM char *text = malloc((size_t)i->found.config_len + 1);

	assert(text != NULL);
	if (read_at(i->result, text, i->found.config_len, sizeof(i->found), e) < 0)
		return -1;
	i->has_config = true;
	if (oci_config_read(text, i->found.config_len, oci_platform_own(), &i->config, e) < 0)
		return -1;
	if (i->config.nlayers != i->found.nlayers)
		return err_set(e, ERR_INVALID, "the configuration is of another image");
	return 0;
}

/* A root file system is an image of one layer, about which nothing is said. */
static void take_rootfs(struct import *i)
{
	i->make.rootfs = true;
	i->has_config = true;
	buf_init(&i->config.env, OCI_ENV_BYTES_MAX);
	buf_init(&i->config.command, OCI_COMMAND_BYTES_MAX);
	i->config.nlayers = 1;
	i->found.nlayers = 1;
	i->found.layers[0] = (struct storage_survey_layer){ 0, i->spool.bytes };
}

static void write_provenance(struct import *i)
{
	struct oci_digest digest;
	char text[OCI_DIGEST_TEXT];
	int n = snprintf(i->provenance, sizeof(i->provenance), "kind\t%s\n", kinds[i->found.kind]);

	if (i->found.kind == STORAGE_SURVEY_ROOTFS)
		return;
	memcpy(digest.sha256, i->found.digest, sizeof(digest.sha256));
	oci_digest_text(&digest, text);
	n += snprintf(i->provenance + n, sizeof(i->provenance) - (size_t)n, "digest\t%s\n", text);
	if (i->found.tag[0] != '\0' && strpbrk(i->found.tag, "\t\n") == NULL)
		(void)snprintf(i->provenance + n, sizeof(i->provenance) - (size_t)n, "image\t%s\n",
			       i->found.tag);
}

/* ---- the template */

/* Duplicates share the file's position, but parts are read by pread(2). */
static int open_layer(struct image_make *m, unsigned k, struct image_layer_source *ret,
		      struct err *e)
{
	const struct import *i = m->arg;

	ret->fd = fcntl(i->found.in_spare != 0 ? i->spare : i->spool.fd, F_DUPFD_CLOEXEC, 3);
	ret->from = i->found.layers[k].offset;
	ret->length = i->found.layers[k].size;
	return ret->fd < 0 ? err_sys(e, "the archive") : 0;
}

static void on_made(struct completion *c, const struct err *e)
{
	struct import *i = c->arg;

	if (e == NULL)
		i->made = i->make.made;
	import_finish(i, e);
}

static void import_make(struct import *i)
{
	struct image_make *m = &i->make;

	for (uint32_t k = 0; k < i->found.nlayers; k++)
		i->sizes[k] = i->found.layers[k].size;
	write_provenance(i);
	m->core = i->core;
	m->tenant = i->tenant;
	m->config = &i->config;
	m->sizes = i->sizes;
	m->name = i->name.name;
	m->user = i->user;
	m->workdir = i->workdir;
	i->tag = i->name.tag[0] == '\0' ? STORE_TAG_DEFAULT : i->name.tag;
	m->tags = &i->tag;
	m->ntags = 1;
	m->provenance = i->provenance;
	m->open_layer = open_layer;
	m->arg = i;
	m->done = (struct completion){ .on_done = on_made, .arg = i };
	image_make_start(m);
}

/* Read what cordon-storage has found out. */
static int take_found(struct import *i, struct err *e)
{
	if (read_at(i->result, &i->found, sizeof(i->found), 0, e) < 0 || check_found(i, e) < 0)
		return -1;
	if (i->found.kind != STORAGE_SURVEY_ROOTFS)
		return read_config(i, e);
	take_rootfs(i);
	return 0;
}

static void on_surveyed(struct completion *c, const struct err *e)
{
	struct import *i = c->arg;
	struct err why;

	if (e != NULL)
		import_finish(i, e);
	else if (take_found(i, &why) < 0)
		import_finish(i, &why);
	else
		import_make(i);
}

static void import_survey(struct import *i)
{
	int fds[3];
	struct err e;

	fds[0] = fcntl(i->spool.fd, F_DUPFD_CLOEXEC, 3);
	fds[1] = fcntl(i->spare, F_DUPFD_CLOEXEC, 3);
	fds[2] = fcntl(i->result, F_DUPFD_CLOEXEC, 3);
	if (fds[0] < 0 || fds[1] < 0 || fds[2] < 0) {
		(void)err_sys(&e, "the archive");
		io_close_all(fds, COUNT(fds));
		import_finish(i, &e);
		return;
	}
	i->survey.done = (struct completion){ .on_done = on_surveyed, .arg = i };
	i->survey.tenant = tenant_row(i->tenant)->id;
	storage_link_survey(core_storage(i->core), &i->survey, IMPORT_BYTES_MAX,
			    (uint32_t)core_layers(i->core)->reserve_percent, fds[0], fds[1],
			    fds[2]);
}

/* All of the archive is in its file, or will never be. */
static void on_spooled(struct spool *s, const struct err *e)
{
	struct import *i = s->arg;

	if (e != NULL)
		import_finish(i, e);
	else
		import_survey(i);
}

struct template_version *import_made(const struct import *i)
{
	return i->made;
}

void import_free(struct import *i)
{
	if (i == NULL)
		return;
	storage_link_cancel(core_storage(i->core), &i->survey);
	image_make_cancel(&i->make);
	if (i->has_config)
		oci_config_release(&i->config);
	spool_cancel(&i->spool);
	fd_close(i->spare);
	fd_close(i->result);
	LIST_REMOVE(i);
	free(i);
}
