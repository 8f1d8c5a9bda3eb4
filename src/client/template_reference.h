/* template_reference.h - prints how --template names a version of a template that was just made.
 *
 * A bare name or id means the version with the tag `default`. One that was made with other tags
 * only is printed with the first of them. Called by import, debian and build of `cordon template`.
 */
#pragma once

#include <jansson.h>

/* answer: of the server, with `tags`. member: which name is printed, "name" or "template_id". */
void template_reference_print(const json_t *answer, const char *member);
