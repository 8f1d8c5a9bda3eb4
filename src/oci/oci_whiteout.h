/* oci_whiteout.h - names in a layer that delete what lower layers have. Pure. */
#pragma once

/* What the last component of a member's path means. */
enum oci_whiteout {
	OCI_WHITEOUT_NONE,    /* an ordinary name */
	OCI_WHITEOUT_ONE,     /* ".wh.NAME": NAME of lower layers is deleted */
	OCI_WHITEOUT_OPAQUE,  /* ".wh..wh..opq": all that lower layers have in the directory */
	OCI_WHITEOUT_IGNORED, /* other ".wh..wh.*": records of aufs */
	OCI_WHITEOUT_BAD,     /* ".wh." alone, or of "." or "..": refused */
};

/* *ret_name is set for OCI_WHITEOUT_ONE: a part of name. */
enum oci_whiteout oci_whiteout_of(const char *name, const char **ret_name);
