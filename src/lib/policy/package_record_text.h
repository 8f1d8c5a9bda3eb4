/* package_record_text.h - reads the member "package" of a record of cordon-egress: the purpose and
 * the result of a request to a registry. Called by access_record_text.c for records of kind
 * "package". Nothing in the member is trusted: egress handles hostile bytes, and cells choose
 * names. Every text is printable ASCII of bounded length, every word comes from a list. Pure,
 * fuzzed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/packages/package.h"
#include "lib/policy/packages_policy.h"

/* Stored as numbers, in the order of their weight: when one version has several records, a package
 * list shows the last of these results. */
enum package_result {
	PACKAGE_RESULT_PASSED, /* no file: metadata, a search, an allowed upload */
	PACKAGE_RESULT_HIDDEN, /* some versions were hidden from the metadata */
	PACKAGE_RESULT_REFUSED,
	PACKAGE_RESULT_FAILED, /* the registry did not deliver it */
	PACKAGE_RESULT_CUT,    /* the file arrived incomplete */
	PACKAGE_RESULT_DOWNLOADED,
	PACKAGE_RESULT_HASH_MISMATCH,
	PACKAGE_RESULTS
};

#define PACKAGE_RECORD_WORD_MAX 16
#define PACKAGE_RECORD_REGISTRY_MAX PACKAGE_REGISTRY_MAX
#define PACKAGE_RECORD_CHECKSUM_MAX 160

/* The member, in fields. An empty text means that the record does not have it. */
struct package_record {
	char ecosystem[PACKAGE_RECORD_WORD_MAX];
	char kind[PACKAGE_RECORD_WORD_MAX];
	char registry[PACKAGE_RECORD_REGISTRY_MAX]; /* "": a direct URL */
	char name[PACKAGE_NAME_MAX], version[PACKAGE_VERSION_MAX], file[PACKAGE_FILE_MAX];
	enum package_result result;
	char checksum[PACKAGE_RECORD_CHECKSUM_MAX]; /* "ALG:HEX", or "" */
	char expected[PACKAGE_RECORD_WORD_MAX];	    /* the source of the digest, or "" */
	char algorithm[PACKAGE_RECORD_WORD_MAX];    /* of that digest, "": no digest was expected */
	char install_code[PACKAGE_RECORD_WORD_MAX], cache[PACKAGE_RECORD_WORD_MAX];
	bool verified, direct, changed, backdated;
	bool has_time, has_age, is_shaped;
	uint64_t released_ms, age_s;
	uint64_t hidden; /* versions left out of metadata */
	char newest_hidden[PACKAGE_VERSION_MAX];
};

const char *package_result_name(enum package_result r);
bool package_result_read(const char *text, enum package_result *ret);

struct json_t; /* of jansson */

/* Read the object. ERR_INVALID if a member is missing, too long, or of the wrong type. */
int package_record_text_read(const struct json_t *object, struct package_record *ret,
			     struct err *e) MUST_USE;
/* Write the record as an object with known members only. NULL: out of memory. */
struct json_t *package_record_text_write(const struct package_record *r);
