/* lock_out.h - what all readers of lockfiles share: the pin that is being read, and errors with a
 * line. Private to src/packages. */
#pragma once

#include "lock.h"

struct lock_out {
	const char *file; /* for errors */
	int (*on_pin)(void *arg, const struct lock_pin *pin, struct err *e);
	void *arg;
	struct err *e;
	size_t pins, all_digests; /* of the file */
	/* The pin being read: begun by lock_begin(), given by lock_end(). */
	bool open, skip;
	bool need_digest; /* entries without one are no pins: not of a registry, or it stands
			     elsewhere */
	unsigned line;
	enum ecosystem ecosystem;
	char name[PACKAGE_NAME_MAX];
	char version[PACKAGE_VERSION_MAX];
	struct digest digests[LOCK_DIGESTS_MAX];
	size_t ndigests;
};

/* Each of these is 0, or -1 with the error set: "FILE: line N: ...". */
int lock_fail(struct lock_out *o, unsigned line, const char *fmt, ...) PRINTF(3, 4);
int lock_begin(struct lock_out *o, enum ecosystem eco,
	       unsigned line) MUST_USE; /* ends the last one */
int lock_name(struct lock_out *o, unsigned line, const char *p, size_t n) MUST_USE;
int lock_version(struct lock_out *o, unsigned line, const char *p, size_t n) MUST_USE;
/* "sha256:HEX" and the like; SRI may list several. MD5 is skipped. */
int lock_digest(struct lock_out *o, unsigned line, const char *p, size_t n) MUST_USE;
int lock_hex(struct lock_out *o, unsigned line, enum digest_alg alg, const char *p,
	     size_t n) MUST_USE;
int lock_sri(struct lock_out *o, unsigned line, const char *p, size_t n) MUST_USE;
/* Of npm's lockfiles: is this URL the registry's file of the pin's name and version? Of an entry
 * without a digest, only that makes it a pin: an archive or a repository of the same name would
 * otherwise allow the registry's package. */
bool lock_is_registry_url(const struct lock_out *o, const char *p, size_t n);
void lock_skip(struct lock_out *o);	   /* not from a registry */
int lock_end(struct lock_out *o) MUST_USE; /* gives the pin, if one was begun */

/* Lines of a text: without the end of the line ("\n" or "\r\n"). False at the end. */
struct lock_lines {
	const char *at, *end;
	const char *p;
	size_t n;
	unsigned line;
};
bool lock_next_line(struct lock_lines *l);

/* The readers. The text has no NUL. */
int lock_read_npm(struct lock_out *o, const char *text, size_t len) MUST_USE;
int lock_read_yarn(struct lock_out *o, const char *text, size_t len) MUST_USE;
int lock_read_pnpm(struct lock_out *o, const char *text, size_t len) MUST_USE;
int lock_read_requirements(struct lock_out *o, const char *text, size_t len) MUST_USE;
int lock_read_poetry(struct lock_out *o, const char *text, size_t len) MUST_USE;
int lock_read_uv(struct lock_out *o, const char *text, size_t len) MUST_USE;
int lock_read_pylock(struct lock_out *o, const char *text, size_t len) MUST_USE;
int lock_read_cargo(struct lock_out *o, const char *text, size_t len) MUST_USE;
int lock_read_go(struct lock_out *o, const char *text, size_t len) MUST_USE;
int lock_read_gem(struct lock_out *o, const char *text, size_t len) MUST_USE;
