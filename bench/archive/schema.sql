-- An archive of medical images, as DICOM has them: a patient has studies, a study has series,
-- and a series has slices, which are files of about half a megabyte.
--
--	psql -v pixels='securefile(filesystem_like_logging)' -f schema.sql
--
-- The type of the files is in one place, so that bytea can stand there for comparison.

CREATE DOMAIN slice_file AS :pixels;

CREATE TABLE patient (
	patient_id	bigint PRIMARY KEY,
	name		text NOT NULL,
	born		date NOT NULL
);

CREATE TABLE study (
	study_id	bigint PRIMARY KEY,
	patient_id	bigint NOT NULL REFERENCES patient,
	taken		timestamptz NOT NULL DEFAULT now(),
	-- the tombstone: who looks for images does not find the study any more
	removed		timestamptz
);
CREATE INDEX ON study (patient_id);
CREATE INDEX ON study (removed) WHERE removed IS NOT NULL;

CREATE TABLE series (
	series_id	bigint PRIMARY KEY,
	study_id	bigint NOT NULL REFERENCES study,
	modality	text NOT NULL
);
CREATE INDEX ON series (study_id);

CREATE TABLE slice (
	series_id	bigint REFERENCES series,
	position	integer,
	file		slice_file NOT NULL,
	PRIMARY KEY (series_id, position)
);

-- What a viewer sees.
CREATE VIEW current_slice AS
	SELECT study_id, series_id, position, file
	FROM slice JOIN series USING (series_id) JOIN study USING (study_id)
	WHERE removed IS NULL;

-- Deletes the files of studies whose tombstone is older than a time, and returns their number.
-- Patient, study and series stay: they say what there was.
CREATE FUNCTION purge(before timestamptz) RETURNS bigint LANGUAGE sql
BEGIN ATOMIC
	WITH gone AS (
		DELETE FROM slice USING series, study
		WHERE slice.series_id = series.series_id AND series.study_id = study.study_id
			AND study.removed < before
		RETURNING 1)
	SELECT count(*) FROM gone;
END;
