/* oci_json.h - reads JSON documents of images with jansson: bounded, each fault named. Called by
 * the other files of this folder, and by src/pull. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/oci/oci_digest.h"

static inline void oci_json_release_(json_t **p)
{
	json_decref(*p);
}
#define OWN_OCI_JSON __attribute__((cleanup(oci_json_release_))) json_t

/* Give the tables of the library a secret seed, before the first document: the documents are from
 * registries and tenants. Left alone, the library would open a file for its seed, which a confined
 * process cannot, and take the time. oci_json_parse() calls it. */
void oci_json_seed(void);

/* A document: an object or, if array, an array. Duplicate names are refused. NULL and an error. */
json_t *oci_json_parse(const void *bytes, size_t len, bool array, const char *what,
		       struct err *e) MUST_USE;

/* A text member of at most max bytes without control characters. "" if it is not there or null.
 * NULL and ERR_INVALID if it is something else. */
const char *oci_json_text(const json_t *object, const char *name, size_t max,
			  struct err *e) MUST_USE;

/* An array member of at most max elements. *ret is NULL if it is not there or null. */
int oci_json_array(const json_t *object, const char *name, size_t max, json_t **ret,
		   struct err *e) MUST_USE;
/* As above, for an object. */
int oci_json_object(const json_t *object, const char *name, json_t **ret, struct err *e) MUST_USE;
