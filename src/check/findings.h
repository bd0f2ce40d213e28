/*
 * findings.h
 *	  The list of findings: SF_FINDING(kind, text, usual repair).
 *	  Included several times; no include guard.
 *
 * The text is column "finding" of securefile_check().  The usual repair is the
 * SfRepair that securefile_repair() reports in column "action", unless the
 * place that reports the finding has to choose another one.  The rows of
 * doc/reference.md, and the texts that read/ hands to sf_read_verify(), are
 * compared with this list by test/doc.
 */

/* Values, and their locators: nothing but the value's owner can mend them. */
SF_FINDING(CHECKSUM_MISMATCH, "checksum mismatch", NONE)
SF_FINDING(UNDECODABLE, "undecodable", NONE)
SF_FINDING(LEFT_BEHIND, "data left behind", NONE)
SF_FINDING(UNREADABLE, "unreadable", NONE)
SF_FINDING(HASH_DIFFERS, "content hash differs", NONE)
SF_FINDING(UNFILLED, "not restored", NONE)
SF_FINDING(BAD_LOCATOR, "bad locator", NONE)
SF_FINDING(SECTOR_TWICE, "sector owned twice", NONE)
SF_FINDING(INODE_PAGE_TWICE, "inode page owned twice", NONE)

/* The space map, and pages of nodes, against what the values own. */
SF_FINDING(OWNED_FREE, "owned but free", MARK)
SF_FINDING(OWNED_DOOMED, "owned but to be freed", LISTS)
SF_FINDING(UNOWNED, "used but not owned", FREE)
SF_FINDING(DOOMED_FREE, "to be freed but free", MARK)
SF_FINDING(DOOMED_TWICE, "to be freed twice", LISTS)
SF_FINDING(WRONG_COUNT, "wrong count of used sectors", CORRECT)

/* Share records, and the rows that refer to them. */
SF_FINDING(NO_RECORD, "reference to nothing", RECORD)
SF_FINDING(OTHER_MAP, "shared map differs", RECORD)
SF_FINDING(NO_SHARED_MAP, "shared map unreadable", NONE)
SF_FINDING(WRONG_REFERENCES, "wrong reference count", CORRECT)
SF_FINDING(UNREFERRED, "shared object nobody refers to", FREE)

/* The pages of the segment relation themselves. */
SF_FINDING(HEADER_BEHIND, "header page behind", CORRECT)
SF_FINDING(UNRESOLVABLE, "pending entry can never resolve", LISTS)
SF_FINDING(DAMAGED_PAGE, "damaged page", PAGE)
SF_FINDING(DAMAGED_LIST, "damaged list of pages", LISTS)
SF_FINDING(RELATION_SHORT, "segment relation too short", PAGE)

/* What is missing altogether. */
SF_FINDING(NO_SEGMENT, "missing segment", NONE)
SF_FINDING(FILES_SHORT, "data files too short", NONE)
