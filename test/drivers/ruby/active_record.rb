# Writes and reads a securefile column with Ruby's ActiveRecord, and migrates.
#
# The server is the one that PGHOST, PGPORT, PGUSER and PGDATABASE name; the database has the
# extension, and no table "docs".  Prints "ok - active_record: WHAT" or "not ok - active_record:
# WHAT: REASON" for each test.

require "active_record"
require "digest"
require "stringio"

ActiveRecord::Base.establish_connection(adapter: "postgresql", host: ENV["PGHOST"], port: ENV["PGPORT"],
                                        username: ENV["PGUSER"], database: ENV["PGDATABASE"])
ActiveRecord::Schema.verbose = false
MB = 1024 * 1024
LONG = ENV["SECUREFILE_PAYLOADS"] == "long"

# ---- what doc/drivers.md shows ----

class CreateDocs < ActiveRecord::Migration[6.1]
  def change
    create_table :docs do |t|
      t.string :name
      t.column :document, "securefile(nocache)"
    end
  end
end

class Doc < ActiveRecord::Base
  attribute :document, :binary
end

# Stores a file of any length.
def upload(name, file)
  Doc.transaction do
    pg = Doc.connection.raw_connection
    handle = pg.exec("SELECT securefile_create('docs', 'document')").getvalue(0, 0)
    while (piece = file.read(1024 * 1024))
      pg.exec_params("SELECT securefile_write($1, $2)", [handle, { value: piece, type: 17, format: 1 }])
    end
    pg.exec_params("INSERT INTO docs (name, document) VALUES ($1, securefile_finish($2))", [name, handle])
  end
end

# Reads a file of any length, a piece at a time.
def download(name, file)
  pg = Doc.connection.raw_connection
  pg.send_query_params("SELECT securefile_chunks(document) FROM docs WHERE name = $1", [name], 1)
  pg.set_single_row_mode
  pg.get_result.stream_each_row { |row| file.write(row[0]) }
end

# ---- tests ----

# As who does not know the type declares it.
class Unknown < ActiveRecord::Base
  self.table_name = "docs"
end

class Payloads
  RANDOM = Random.new(1)
  SMALL = {
    "NULL" => nil, "0 bytes" => "", "10 bytes" => "\0\xff'\"\\\n\0\x80x\0".b, "every byte" => (0..255).map(&:chr).join.b,
    'the text \x4142' => '\x4142', 'the text a\134b' => 'a\134b', 'the text a\\\\b' => 'a\\\\b', "10 KB" => RANDOM.bytes(10 * 1024)
  }.freeze
  LARGE = { "5 MB" => RANDOM.bytes(5 * MB) }.freeze
end

$failed = false

def attempt(what)
  yield
  puts "ok - active_record: #{what}"
rescue StandardError => error
  $failed = true
  puts "not ok - active_record: #{what}: #{error.class}: #{error.message}".tr("\n", " ")
end

def equal(got, expected)
  raise "got #{got.inspect[0, 100]}, not #{expected.inspect[0, 100]}" unless got == expected
end

def fails(kind, like)
  yield
rescue kind => error
  raise "another error: #{error.message}" unless error.message.match?(like)
else
  raise "no error"
end

# What the server has, and what is read.
def check(id, data)
  sum = Doc.connection.select_value("SELECT md5(document) FROM docs WHERE id = #{id}")
  equal(sum, data && Digest::MD5.hexdigest(data))
  equal(Doc.find(id).document, data&.b)
end

def column_type
  Doc.connection.select_value("SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname = 'document'")
end

attempt("a migration makes the column") do
  CreateDocs.migrate(:up)
  equal(column_type, "securefile(nocache)")
end

Payloads::SMALL.merge(Payloads::LARGE).each do |name, data|
  attempt("create! and find, #{name}") { check(Doc.create!(name: name, document: data).id, data) }
end

attempt("objects read and changed") do
  doc = Doc.create!(document: "first")
  Payloads::SMALL.each_value do |data|
    doc.update!(document: data)
    check(doc.id, data)
  end
end

attempt("insert_all, upsert_all, update_all") do
  data = Payloads::SMALL.values
  ids = data.each_index.map { |i| 1000 + i }
  Doc.insert_all(ids.zip(data).map { |id, value| { id: id, document: value } })
  ids.zip(data) { |id, value| check(id, value) }
  Doc.upsert_all(ids.zip(data.reverse).map { |id, value| { id: id, document: value } })
  ids.zip(data.reverse) { |id, value| check(id, value) }
  data.each do |value|
    Doc.where(id: 1000).update_all(document: value)
    check(1000, value)
  end
end

attempt("where(document: ...)") do
  Payloads::SMALL.each { |name, data| equal(Doc.where(document: data).where.not(name: nil).pluck(:name), [name]) }
end

attempt("pieces") do
  [0, 10, (LONG ? 200 : 5) * MB + 1].each do |length|
    data = Random.new(length).bytes(length)
    upload("pieces #{length}", StringIO.new(data))
    equal(Doc.connection.select_value("SELECT md5(document) FROM docs WHERE name = 'pieces #{length}'"), Digest::MD5.hexdigest(data))
    read = StringIO.new("".b)
    download("pieces #{length}", read)
    equal(read.string, data)
  end
end

attempt("without the attribute: text, which is taken for an escape") do
  equal(Unknown.columns_hash["document"].type, nil)
  row = Unknown.create!(document: '\x4142')
  equal(Unknown.find(row.id).document, '\x4142')
  equal(Doc.find(row.id).document, "AB")
  fails(ArgumentError, /null byte/) { Unknown.create!(document: "a\0b".b) }
  fails(ActiveRecord::StatementInvalid, /invalid byte sequence/) { Unknown.create!(document: "\xff".b) }
end

attempt("schema.rb leaves the table out") do
  said = StringIO.new
  # from 7.2 on it wants what gives it a connection
  ActiveRecord::SchemaDumper.dump(ActiveRecord.version >= Gem::Version.new("7.2") ? Doc.connection_pool : Doc.connection, said)
  raise said.string unless said.string.include?("Unknown type 'securefile(nocache)' for column 'document'")
end

Doc.connection.drop_table(:docs)
exit($failed ? 1 : 0)
