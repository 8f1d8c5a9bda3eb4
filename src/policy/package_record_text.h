/* package_record_text.h - reads the member "package" of a record of cordon-egress: what a request
 * to a registry was for, and how it ended. Called by access_record_text.c for records of kind
 * "package". Nothing in it is trusted: egress handles hostile bytes, and names are chosen by cells.
 * Every text is printable ASCII of a bounded length, every word one of a list. Pure, fuzzed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "package.h"
#include "packages_policy.h"

/* Stored as numbers. In the order in which they count: of several records of one version, a list of
 * packages shows the result that comes last here. */
enum package_result {
	PACKAGE_RESULT_PASSED, /* no file: metadata, a search, an upload that was allowed */
	PACKAGE_RESULT_HIDDEN, /* metadata was given without some versions */
	PACKAGE_RESULT_REFUSED,
	PACKAGE_RESULT_FAILED, /* the registry did not give it */
	PACKAGE_RESULT_CUT,    /* the file did not arrive whole */
	PACKAGE_RESULT_DOWNLOADED,
	PACKAGE_RESULT_HASH_MISMATCH,
	PACKAGE_RESULTS
};

#define PACKAGE_RECORD_WORD_MAX 16
#define PACKAGE_RECORD_REGISTRY_MAX PACKAGE_REGISTRY_MAX
#define PACKAGE_RECORD_CHECKSUM_MAX 160

struct package_record {
	char ecosystem[PACKAGE_RECORD_WORD_MAX];
	char kind[PACKAGE_RECORD_WORD_MAX];
	char registry[PACKAGE_RECORD_REGISTRY_MAX]; /* "": a direct URL */
	char name[PACKAGE_NAME_MAX], version[PACKAGE_VERSION_MAX], file[PACKAGE_FILE_MAX];
	enum package_result result;
	char checksum[PACKAGE_RECORD_CHECKSUM_MAX]; /* "ALG:HEX", "" */
	char expected[PACKAGE_RECORD_WORD_MAX];	    /* where the digest came from; "" */
	char algorithm[PACKAGE_RECORD_WORD_MAX];    /* of that digest; "": none was expected */
	char install_code[PACKAGE_RECORD_WORD_MAX], cache[PACKAGE_RECORD_WORD_MAX];
	bool verified, direct, changed, backdated;
	bool has_time, has_age, is_shaped;
	uint64_t released_ms, age_s;
	uint64_t hidden; /* versions that were left out of metadata */
	char newest_hidden[PACKAGE_VERSION_MAX];
};

const char *package_result_name(enum package_result r);
bool package_result_read(const char *text, enum package_result *ret);

struct json_t; /* of jansson */

/* Reads the object; ERR_INVALID if a member is missing, of the wrong type, or too long. */
int package_record_text_read(const struct json_t *object, struct package_record *ret,
			     struct err *e) MUST_USE;
/* The same record as an object with known members only; NULL: out of memory. */
struct json_t *package_record_text_write(const struct package_record *r);
