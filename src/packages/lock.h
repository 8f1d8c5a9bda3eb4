/* lock.h - lockfiles: which packages, versions and digests a project was resolved to. Pure; for
 * untrusted bytes. Read by cordond and the command line, never by cordon-egress, which gets pins.
 *
 * The name of the file tells its format:
 *
 * - npm: package-lock.json and npm-shrinkwrap.json (versions 1 to 3), pnpm-lock.yaml (5 to 9),
 *   yarn.lock (1; of later versions only names and versions are read, since their checksums are of
 *   archives that yarn makes)
 *
 * - pypi: requirements*.txt, poetry.lock, uv.lock, pylock.toml, pylock.*.toml
 *
 * - cargo: Cargo.lock
 *
 * - go: go.sum
 *
 * - gem: Gemfile.lock
 *
 * What is not from a registry (directories, git repositories, links) is no pin and is skipped. What
 * cannot be understood is an error that names the line: a lockfile is read whole or not at all.
 *
 * The work of every reader is proportional to the size of the text: cordond reads it in a turn of
 * its loop. tests/unit/test_lock_work.c has hostile texts for each. */
#pragma once

#include "digest.h"
#include "package.h"

#define LOCK_TEXT_MAX (16U << 20)
#define LOCK_PINS_MAX 20000
#define LOCK_DIGESTS_MAX 1024	   /* files of one version */
#define LOCK_ALL_DIGESTS_MAX 65536 /* of a lockfile */
#define LOCK_LINE_MAX (64U << 10)  /* of formats that have lines: not JSON, not TOML */

struct lock_pin {
	enum ecosystem ecosystem;
	const char *name;    /* normal form */
	const char *version; /* go: "v1.0.0", or "v1.0.0/go.mod" for its go.mod alone */
	/* The file has one of them. None: the lockfile has name and version only. */
	const struct digest *digests;
	size_t ndigests;
};

/* Is there a reader for files of this name? Directories before it do not count. */
bool lock_knows(const char *name);

/* Calls on_pin for each pin, about in the order of the file; borrowed until it returns. One version
 * may come several times: the digests of all are a set. Fails with on_pin's error, with
 * ERR_INVALID, or with ERR_LIMIT; pins that were given before count for nothing then. */
int lock_read(const char *name, const char *text, size_t len,
	      int (*on_pin)(void *arg, const struct lock_pin *pin, struct err *e), void *arg,
	      struct err *e) MUST_USE;
