/* lock.h - reads lockfiles: the packages, versions and digests that a project was resolved to.
 * Pure, for untrusted bytes. Called by cordond and the command line, never by cordon-egress, which
 * gets pins.
 *
 * The name of the file tells its format:
 *
 * - npm: package-lock.json and npm-shrinkwrap.json (versions 1 to 3), pnpm-lock.yaml (5 to 9),
 *   yarn.lock. Version 1 of yarn.lock has digests. Later versions give names and versions only,
 *   because their checksums are of archives that yarn makes
 *
 * - pypi: requirements*.txt, poetry.lock, uv.lock, pylock.toml, pylock.*.toml
 *
 * - cargo: Cargo.lock
 *
 * - go: go.sum
 *
 * - gem: Gemfile.lock
 *
 * Entries from other sources than a registry (directories, git repositories, links) are no pins and
 * are skipped. Text that cannot be understood is an error that names the line: a lockfile is read
 * whole or not at all.
 *
 * The work of every reader is proportional to the size of the text, and is done in pieces, because
 * cordond reads lockfiles in turns of its loop. tests/unit/test_lock_work.c has hostile texts for
 * each. */
#pragma once

#include "lib/packages/digest.h"
#include "lib/packages/package.h"

#define LOCK_TEXT_MAX (16U << 20)
#define LOCK_PINS_MAX 20000
#define LOCK_DIGESTS_MAX 1024	   /* files of one version */
#define LOCK_ALL_DIGESTS_MAX 65536 /* of a lockfile */
#define LOCK_LINE_MAX (64U << 10)  /* of formats with lines: not JSON, not TOML */
#define LOCK_PIECE (64U << 10)	   /* bytes that one piece reads, about */

/* A pinned version. */
struct lock_pin {
	enum ecosystem ecosystem;
	const char *name;    /* normal form */
	const char *version; /* go: "v1.0.0", or "v1.0.0/go.mod" for its go.mod alone */
	/* A file must have one of them. None: the lockfile has name and version only. */
	const struct digest *digests;
	size_t ndigests;
};

/* Is there a reader for files of this name? Directories in front of it do not count. */
bool lock_knows(const char *name);

/* Call on_pin for each pin, about in the order of the file. The pin is borrowed until on_pin
 * returns. One version may come several times: its digests form one set. Fail with on_pin's error,
 * with ERR_INVALID, or with ERR_LIMIT. After a failure the caller must drop the pins given
 * before. */
int lock_read(const char *name, const char *text, size_t len,
	      int (*on_pin)(void *arg, const struct lock_pin *pin, struct err *e), void *arg,
	      struct err *e) MUST_USE;

/* As above, in pieces. The text is borrowed until lock_reader_free(). NULL: with the error set. */
struct lock_reader;
struct lock_reader *lock_reader_new(const char *name, const char *text, size_t len,
				    int (*on_pin)(void *arg, const struct lock_pin *pin,
						  struct err *e),
				    void *arg, struct err *e);
/* Read a piece. 1: there is more. 0: the lockfile was read. -1: it failed. */
int lock_reader_step(struct lock_reader *r, struct err *e) MUST_USE;
void lock_reader_free(struct lock_reader *r); /* also NULL */
