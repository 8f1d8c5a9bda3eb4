/* sbom.h - the bill of materials of a session: its downloads, as CycloneDX 1.5 or SPDX 2.3 in JSON.
 * Made of the server's list of packages (GET /v1/sessions/ID/packages). Called by verb_packages.c.
 * Pure but for the clock. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

enum sbom_form { SBOM_CYCLONEDX, SBOM_SPDX, SBOM_FORMS };

/* "cyclonedx", "spdx". "" is the first. */
bool sbom_form_read(const char *text, enum sbom_form *ret);

/* packages: an array of rows. Rows without a download are left out. The caller owns the document.
 * NULL: out of memory. */
json_t *sbom_make(enum sbom_form form, const char *session, const json_t *packages);
