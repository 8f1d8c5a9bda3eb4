/* lock_out.h - shared by all readers of lockfiles: the place in the text, the current pin, and
 * errors with a line. The text has no NUL. Private to src/lib/packages. */
#pragma once

#include "lib/packages/lock.h"

struct lock_out;

/* The lines of a text, without their end ("\n" or "\r\n"). lock_next_line() returns false at the
 * end. */
struct lock_lines {
	const char *at, *end;
	const char *p;
	size_t n;
	unsigned line;
};
bool lock_next_line(struct lock_lines *l);

/* A kind of lockfile. Its text is read in steps: a line (line), or a value (step). */
struct lock_format {
	const char *start, *end; /* of the file's name */
	size_t state;		 /* bytes that the reader has of its own */
	/* 0, or -1 with the error set. begin: before the first step. finish: behind the last line.
	 * Both may be NULL. */
	int (*begin)(struct lock_out *o);
	int (*line)(struct lock_out *o); /* reads o->lines */
	int (*finish)(struct lock_out *o);
	/* 1: there is more, 0: the text has ended. Move o->at. */
	int (*step)(struct lock_out *o);
};

extern const struct lock_format lock_npm, lock_shrinkwrap, lock_yarn, lock_pnpm, lock_requirements,
	lock_poetry, lock_uv, lock_pylock, lock_pylock_named, lock_cargo, lock_go, lock_gem;

/* A reader, and its output. */
struct lock_out {
	const char *file; /* for errors */
	const char *text, *end;
	const char *at; /* of step() */
	struct lock_lines lines;
	void *state; /* owned. Zeroed at first */
	int (*on_pin)(void *arg, const struct lock_pin *pin, struct err *e);
	void *arg;
	struct err *e;
	size_t pins, all_digests; /* of the file */
	/* The current pin: lock_begin() begins it, lock_end() passes it on. */
	bool open, skip;
	/* entries without a digest are no pins: they come from no registry, or their digest follows
	 * later */
	bool need_digest;
	unsigned line;
	enum ecosystem ecosystem;
	char name[PACKAGE_NAME_MAX];
	char version[PACKAGE_VERSION_MAX];
	struct digest digests[LOCK_DIGESTS_MAX];
	size_t ndigests;
};

/* Each function returns 0, or -1 with the error set: "FILE: line N: ...". */
int lock_fail(struct lock_out *o, unsigned line, const char *fmt, ...) PRINTF(3, 4);
int lock_begin(struct lock_out *o, enum ecosystem eco,
	       unsigned line) MUST_USE; /* ends the previous pin */
int lock_name(struct lock_out *o, unsigned line, const char *p, size_t n) MUST_USE;
int lock_version(struct lock_out *o, unsigned line, const char *p, size_t n) MUST_USE;
/* Read "sha256:HEX" and similar forms, a list of SRI, or hex digits. MD5 is skipped. */
int lock_digest(struct lock_out *o, unsigned line, const char *p, size_t n) MUST_USE;
int lock_hex(struct lock_out *o, unsigned line, enum digest_alg alg, const char *p,
	     size_t n) MUST_USE;
int lock_sri(struct lock_out *o, unsigned line, const char *p, size_t n) MUST_USE;
/* Is this URL, of one of npm's lockfiles, the registry's file for the pin's name and version? Only
 * such a URL makes an entry without a digest a pin. Otherwise an archive or repository of the same
 * name would allow the registry's package. */
bool lock_is_registry_url(const struct lock_out *o, const char *p, size_t n);
void lock_skip(struct lock_out *o);	   /* the entry comes from no registry */
int lock_end(struct lock_out *o) MUST_USE; /* passes on the current pin, if any */
