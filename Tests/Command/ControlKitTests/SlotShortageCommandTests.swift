import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import BreakerStore
@testable import ControlKit

/// Commands where a file of slots has no room for one more breaker.
@Suite(.timeLimit(.minutes(60))) struct SlotShortageCommandTests {
  /// A clinic whose every block is that of some breaker; one of them exists if `isLiving`.
  private func fullClinic(isLiving: Bool) throws -> Clinic {
    let clinic = try Clinic()
    clinic.useLimit()
    if isLiving {
      // The other breakers are rows, and nothing more.
      try clinic.sql(
        """
        WITH RECURSIVE number(n) AS
          (SELECT 5000 UNION ALL SELECT n + 1 FROM number WHERE n < 5100 + \(SlotFile.blocks))
        INSERT INTO breaker (id, name) SELECT n, 'row-' || n FROM number
        """)
    } else {
      try clinic.sql("UPDATE sqlite_sequence SET seq = 20000 WHERE name = 'breaker'")
    }
    let descriptor = unsafe open(clinic.store + "-slots", O_RDWR | O_CLOEXEC)
    try #require(descriptor >= 0)
    defer { close(descriptor) }
    // The first block is that of the breaker `gpu`.
    let ids = (1..<SlotFile.blocks).map { UInt64(5_000 + $0) }
    #expect(unsafe pwrite(descriptor, ids, ids.count * 8, SlotFile.offsetOfBlocks + 8) > 0)
    try Files.truncate(clinic.store + "-slots", to: SlotFile.offset(ofBlock: SlotFile.blocks))
    return clinic
  }

  @Test func `the breaker that finds no slots runs without its limit, and everything says so`()
    throws
  {
    let clinic = try fullClinic(isLiving: true)
    let run = clinic.cbctl(["run", "late", "--max-concurrent", "1", "--", "true"])
    #expect(run.code == 0)
    #expect(run.errors.contains("the command runs without its limit: "), "\(run)")
    #expect(clinic.cbctl(["run", "gpu", "--", "true"]).errors.isEmpty)
    let status = clinic.cbctl(["status", "late"]).output
    #expect(status.contains("  ?/1 "), "\(status)")
    #expect(clinic.cbctl(["show", "late"]).output.contains("is full"))
    #expect(clinic.cbctl(["status", "gpu"]).output.contains("  0/2 "))
    let line = clinic.line("slots", of: clinic.doctor()).text
    #expect(line.contains("8192 breakers have slots, and no more can"), "\(line)")
  }

  @Test func `a breaker takes the slots of one that was deleted`() throws {
    let clinic = try fullClinic(isLiving: false)
    let run = clinic.cbctl(["run", "late", "--max-concurrent", "1", "--", "true"])
    #expect(run == Answer(code: 0, output: "", errors: ""))
    let status = clinic.cbctl(["status", "late"]).output
    #expect(status.contains("  0/1 "), "\(status)")
    #expect(clinic.line("slots", of: clinic.doctor()).word == "ok")
  }
}
