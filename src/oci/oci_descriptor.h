/* oci_descriptor.h - one descriptor {mediaType, digest, size} of a manifest or index. Called by the
 * other files of this folder. */
#pragma once

#include "oci_json.h"
#include "oci_manifest.h"

/* Reads digest and size; *ret_type points into the JSON. */
int oci_descriptor_read(const json_t *object, struct oci_descriptor *ret, const char **ret_type,
			struct err *e) MUST_USE;
