package main

import (
	"fmt"
	"os"
	"strings"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// ---- what doc/drivers.md shows ----

type Doc struct {
	ID       int64 `gorm:"primaryKey;autoIncrement:false"`
	Name     *string
	Document []byte `gorm:"type:securefile(nocache)"`
}

// ---- tests ----

// Doc as who does not know the type declares it.
type plainDoc struct {
	ID       int64 `gorm:"primaryKey;autoIncrement:false"`
	Name     *string
	Document []byte
}

func (plainDoc) TableName() string { return "docs" }

// A connection of its own: pgx keeps descriptions of statements, which DDL changes.
func openGorm() (*gorm.DB, error) {
	dsn := fmt.Sprintf("host=%s port=%s user=%s dbname=%s", os.Getenv("PGHOST"), os.Getenv("PGPORT"),
		os.Getenv("PGUSER"), os.Getenv("PGDATABASE"))
	return gorm.Open(postgres.Open(dsn), &gorm.Config{Logger: logger.Discard})
}

func withGorm(use func(db *gorm.DB) error) error {
	db, err := openGorm()
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	defer pool.Close()
	return use(db)
}

// The type of the column, and how many documents it has.
func gormColumn(db *gorm.DB) (string, error) {
	var said string
	err := db.Raw(`SELECT format('%s, %s', format_type(atttypid, atttypmod), (SELECT count(document) FROM docs))
		FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname = 'document'`).Scan(&said).Error
	return said, err
}

// What AutoMigrate makes of a table with one document in it.
func gormMigrates(model any, table, expected string) error {
	err := withGorm(func(db *gorm.DB) error {
		if err := db.Exec("DROP TABLE IF EXISTS docs; " + table).Error; err != nil {
			return err
		}
		return db.AutoMigrate(model)
	})
	if err != nil {
		return err
	}
	return withGorm(func(db *gorm.DB) error {
		said, err := gormColumn(db)
		if err == nil && said != expected {
			err = fmt.Errorf("the column is %s, should be %s", said, expected)
		}
		return err
	})
}

// Whether a document is written, changed, found and read.
func gormRoundTrip(db *gorm.DB, id int64, data []byte) error {
	check := func() error {
		var sum *string
		if err := db.Raw("SELECT md5(document) FROM docs WHERE id = ?", id).Scan(&sum).Error; err != nil {
			return err
		}
		if err := sameOnServer(sum, data); err != nil {
			return err
		}
		var doc Doc
		if err := db.First(&doc, id).Error; err != nil {
			return err
		}
		return same(doc.Document, data)
	}
	for _, write := range []func() error{
		func() error { return db.Create(&Doc{ID: id, Document: data}).Error },
		func() error { return db.Save(&Doc{ID: id, Document: data}).Error },
		func() error { return db.Model(&Doc{ID: id}).Update("document", data).Error },
		func() error { return db.Save(&plainDoc{ID: id, Document: data}).Error },
	} {
		if err := write(); err != nil {
			return err
		}
		if err := check(); err != nil {
			return err
		}
	}
	if data == nil {
		return nil
	}
	var found int64
	err := db.Model(&Doc{}).Where("document = ?", data).Count(&found).Error
	if err == nil && found != 1 {
		err = fmt.Errorf("%d rows have the document", found)
	}
	return err
}

func testGorm(t *tester) error {
	const securefile = "CREATE TABLE docs (id bigint PRIMARY KEY, name text, document securefile); " +
		"INSERT INTO docs (id, document) VALUES (1, repeat('x', 5000)::bytea)"
	withOption := strings.Replace(securefile, "document securefile", "document securefile(nocache)", 1)
	t.run("AutoMigrate makes the column", func() error { return gormMigrates(&Doc{}, "", "securefile(nocache), 0") })
	if err := withGorm(func(db *gorm.DB) error {
		for id, p := range payloads() {
			t.run("round trips, "+p.name, func() error { return gormRoundTrip(db, int64(id)+1, p.data) })
		}
		return nil
	}); err != nil {
		return err
	}
	t.run("AutoMigrate leaves the column", func() error { return gormMigrates(&Doc{}, withOption, "securefile(nocache), 1") })
	t.run("AutoMigrate does not compare options", func() error { return gormMigrates(&Doc{}, securefile, "securefile, 1") })
	t.run("AutoMigrate without the tag turns it into bytea", func() error { return gormMigrates(&plainDoc{}, withOption, "bytea, 1") })
	return withGorm(func(db *gorm.DB) error { return db.Exec(dropTable).Error })
}
