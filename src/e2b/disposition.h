/* disposition.h - Content-Disposition and Content-Type of a file, by its name. Pure. */
#pragma once

#include <stdbool.h>

#define DISPOSITION_MAX 1344

/* inline; filename="..." of the last part of a path, with filename* if it is not plain ASCII. A
 * name that does not fit is left out. */
void disposition_write(const char *path, char ret[DISPOSITION_MAX]);
/* The media type that its extension stands for; application/octet-stream if none does. */
const char *disposition_type(const char *path);
/* Can content of this type contain code that a browser runs? */
bool disposition_is_active(const char *type);
