/* store_build.h - builds of templates: the builds themselves, their logs, results of steps that
 * later builds use again (the cache), and archives that clients have uploaded for them. See store.h
 * for what holds for all rows.
 *
 * The store does not know what statuses and levels mean. A template whose first build has not ended
 * has no row of store_template.h: its name and id are in the rows of its builds only. */
#pragma once

#include "daemon/store/store.h"

#define STORE_BUILD_ID_MAX 37 /* a UUID */
#define STORE_BUILD_STEP_MAX 16
#define STORE_BUILD_DIGEST_MAX 65 /* SHA-256 in hex */

struct store_build {
	char id[STORE_BUILD_ID_MAX];
	char tenant[STORE_ID_MAX];
	char template_id[STORE_ID_MAX];
	char name[STORE_NAME_MAX];
	uint32_t status;
	char step[STORE_BUILD_STEP_MAX]; /* of a failure: "base", "1", ..., "finalize". Else "" */
	uint64_t cpu_millis, memory_bytes;
	uint64_t created_ms, updated_ms, finished_ms;
	uint64_t log_bytes;	    /* of its log. Of one that runs: the most it may have */
	char version[STORE_ID_MAX]; /* the version of the template that it made. "": none */
	const char *tags;	    /* a line for each */
	const char *reason;	    /* of a failure */

	void *owned; /* the texts of a row from a *_get() */
};

typedef int store_build_fn(const struct store_build *row, void *cookie);

int store_build_insert(struct store *s, const struct store_build *row, struct err *e) MUST_USE;
/* Write status, step, reason, version, updated_ms, finished_ms and log_bytes. */
int store_build_update(struct store *s, const struct store_build *row, struct err *e) MUST_USE;
int store_build_get(struct store *s, const char *id, struct store_build *ret,
		    struct err *e) MUST_USE;
void store_build_release(struct store_build *row);
/* The newest build of that template. ERR_NOT_FOUND: there is none. */
int store_build_by_name(struct store *s, const char *tenant, const char *name,
			struct store_build *ret, struct err *e) MUST_USE;
int store_build_by_template(struct store *s, const char *template_id, struct store_build *ret,
			    struct err *e) MUST_USE;
/* The build that made this version of a template. ERR_NOT_FOUND: none did. */
int store_build_by_version(struct store *s, const char *version, struct store_build *ret,
			   struct err *e) MUST_USE;
/* Builds of a template, newest first. */
int store_build_list(struct store *s, const char *template_id, unsigned limit, unsigned skip,
		     store_build_fn *fn, void *cookie, struct err *e) MUST_USE;
/* The newest build of each template of the tenant, by name, behind that name. */
int store_build_templates(struct store *s, const char *tenant, const char *after, unsigned limit,
			  store_build_fn *fn, void *cookie, struct err *e) MUST_USE;
/* How many builds of a tenant have one status. How many a template has. */
int store_build_count(struct store *s, const char *tenant, uint32_t status, uint64_t *ret,
		      struct err *e) MUST_USE;
int store_build_count_of(struct store *s, const char *template_id, uint64_t *ret,
			 struct err *e) MUST_USE;
/* At the start: all builds of one status get another, with this reason. */
int store_build_give_up(struct store *s, uint32_t from, uint32_t to, const char *reason,
			uint64_t now_ms, struct err *e) MUST_USE;
/* As above, for builds made before a time. */
int store_build_expire(struct store *s, uint32_t from, uint32_t to, const char *reason,
		       uint64_t before_ms, uint64_t now_ms, struct err *e) MUST_USE;
/* As above, for builds whose version exists: they had succeeded. Layers of all builds that do not
 * run are released. */
int store_build_settle(struct store *s, uint32_t from, uint32_t to, uint64_t now_ms,
		       struct err *e) MUST_USE;
/* Any build of the tenant. */
int store_build_any(struct store *s, const char *tenant, struct store_build *ret,
		    struct err *e) MUST_USE;
/* How many templates the tenant has builds of. */
int store_build_names(struct store *s, const char *tenant, uint64_t *ret, struct err *e) MUST_USE;
/* The newest build of templates without a version and without a build of one of two statuses: those
 * without a request for the longest time first. */
int store_build_unmade(struct store *s, const char *tenant, const uint32_t open[2], unsigned limit,
		       store_build_fn *fn, void *cookie, struct err *e) MUST_USE;
/* Delete all builds of a template. Their logs and the template's uploads are noted as gone. */
int store_build_delete_template(struct store *s, const char *template_id, struct err *e) MUST_USE;
/* Delete ended builds without an existing version, except the newest keep of their template. Their
 * logs are noted as gone. */
int store_build_prune(struct store *s, const char *template_id, unsigned keep,
		      struct err *e) MUST_USE;

/* ---- logs */

struct store_build_entry {
	uint64_t seq, time_ms;
	uint32_t level;
	const char *step, *message;
};

typedef int store_build_entry_fn(const struct store_build_entry *row, void *cookie);

int store_build_log_add(struct store *s, const char *build, const struct store_build_entry *row,
			struct err *e) MUST_USE;
/* Selects log entries: of at least that level, of that step ("": all steps), without the first skip
 * entries, at most limit. */
struct store_build_part {
	uint32_t level;
	const char *step;
	uint64_t skip;
	unsigned limit;
};

int store_build_log_list(struct store *s, const char *build, const struct store_build_part *part,
			 store_build_entry_fn *fn, void *cookie, struct err *e) MUST_USE;

/* Bytes of all logs of a tenant. */
int store_build_log_sum(struct store *s, const char *tenant, uint64_t *ret, struct err *e) MUST_USE;
/* Note the log of the tenant's build that ended first as gone. ERR_NOT_FOUND: none has one. */
int store_build_log_drop(struct store *s, const char *tenant, struct err *e) MUST_USE;
/* Remove up to n entries of a log. */
int store_build_log_remove(struct store *s, const char *build, unsigned n, bool *ret_more,
			   struct err *e) MUST_USE;

/* ---- files of deleted rows, not removed yet */

enum store_build_gone_kind { STORE_BUILD_GONE_LOG, STORE_BUILD_GONE_UPLOADS };

struct store_build_gone {
	uint32_t kind;
	char tenant[STORE_ID_MAX];
	char id[STORE_ID_MAX]; /* of a build, or of a template */
};

/* Any of them. ERR_NOT_FOUND: there is none. */
int store_build_gone_any(struct store *s, struct store_build_gone *ret, struct err *e) MUST_USE;
/* It is removed. */
int store_build_gone_delete(struct store *s, const struct store_build_gone *g,
			    struct err *e) MUST_USE;

/* ---- the cache */

struct store_build_cached {
	char tenant[STORE_ID_MAX];
	char key[STORE_BUILD_DIGEST_MAX];
	char layer[STORE_ID_MAX]; /* "": the step left no files */
	uint64_t bytes, used_ms;
	const char *user, *workdir;
	const void *env; /* NAME=value, each with its NUL */
	size_t env_len;

	void *owned;
};

/* Replace one of that key. */
int store_build_cache_put(struct store *s, const struct store_build_cached *row,
			  struct err *e) MUST_USE;
int store_build_cache_get(struct store *s, const char *tenant, const char *key,
			  struct store_build_cached *ret, struct err *e) MUST_USE;
void store_build_cache_release(struct store_build_cached *row);
int store_build_cache_touch(struct store *s, const char *tenant, const char *key, uint64_t now_ms,
			    struct err *e) MUST_USE;
/* A tenant's entry unused for the longest time. idle: among those with a layer that nothing else
 * uses. */
int store_build_cache_oldest(struct store *s, const char *tenant, bool idle,
			     struct store_build_cached *ret, struct err *e) MUST_USE;
/* Delete all of a tenant (build_cache.c bounds their number), and their uses of layers. */
int store_build_cache_clear(struct store *s, const char *tenant, struct err *e) MUST_USE;
int store_build_cache_delete(struct store *s, const char *tenant, const char *key,
			     struct err *e) MUST_USE;
/* A tenant's part of it. */
struct store_build_share {
	char tenant[STORE_ID_MAX];
	uint64_t bytes, rows;
};

int store_build_cache_share(struct store *s, const char *tenant, struct store_build_share *ret,
			    struct err *e) MUST_USE;
/* For the tenant with the most bytes, or rows. */
int store_build_cache_most(struct store *s, bool by_bytes, struct store_build_share *ret,
			   struct err *e) MUST_USE;
int store_build_cache_sum(struct store *s, uint64_t *ret_bytes, uint64_t *ret_rows,
			  struct err *e) MUST_USE;

/* ---- uploads */

struct store_build_upload {
	char tenant[STORE_ID_MAX];
	char template_id[STORE_ID_MAX];
	char hash[STORE_BUILD_DIGEST_MAX];   /* the client's name for it */
	char digest[STORE_BUILD_DIGEST_MAX]; /* of the archive */
	char file[STORE_ID_MAX];	     /* in the folder of uploads */
	uint64_t bytes, used_ms;
};

typedef int store_build_upload_fn(const struct store_build_upload *row, void *cookie);

/* Replace one of that tenant, template and hash. */
int store_build_upload_put(struct store *s, const struct store_build_upload *row,
			   struct err *e) MUST_USE;
int store_build_upload_get(struct store *s, const char *tenant, const char *template_id,
			   const char *hash, struct store_build_upload *ret,
			   struct err *e) MUST_USE;
int store_build_upload_delete(struct store *s, const char *file, struct err *e) MUST_USE;
/* A tenant's upload unused for the longest time. ERR_NOT_FOUND: there is none. */
int store_build_upload_oldest(struct store *s, const char *tenant, struct store_build_upload *ret,
			      struct err *e) MUST_USE;
/* All uploads, those unused for the longest time first. */
int store_build_upload_each(struct store *s, store_build_upload_fn *fn, void *cookie,
			    struct err *e) MUST_USE;
/* Those of a template. */
int store_build_upload_of(struct store *s, const char *tenant, const char *template_id,
			  store_build_upload_fn *fn, void *cookie, struct err *e) MUST_USE;
int store_build_upload_sum(struct store *s, const char *tenant, uint64_t *ret_bytes,
			   uint64_t *ret_rows, struct err *e) MUST_USE;
/* 1: an upload has this file. 0: none. -1. */
int store_build_upload_has(struct store *s, const char *file, struct err *e) MUST_USE;
