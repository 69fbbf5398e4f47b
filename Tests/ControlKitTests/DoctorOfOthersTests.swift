import SharedBreaker
import TestSupport
import Testing

/// What is not the store's is not for its doctor to change.
@Suite struct `The doctor leaves alone` {
  @Test func `a directory in which others have files`() throws {
    let clinic = try Clinic()
    try Files.write(clinic.folder + "/neighbour", [1, 2, 3])
    try Files.changeMode(clinic.folder, to: 0o755)
    for suffix in ["", "-wal", "-shm", "-counters"] {
      try Files.changeMode(clinic.store + suffix, to: 0o660)
    }
    let before = try Files.permissions(of: clinic.folder)
    for options in [[], ["--repair"]] {
      let answer = clinic.cbctl(["doctor"] + options)
      let line = clinic.line("directory", of: answer)
      #expect(line.word == "warn", "\(line.text)")
      #expect(line.text.contains("; repair: none: others may use the directory: "), "\(line.text)")
      #expect(try Files.permissions(of: clinic.folder) == before)
    }
  }
}
