import Glibc
import TestSupport
import Testing

/// The help of the scripts of the repository.
@Suite struct ScriptHelpTests {
  private static let folder =
    "/" + #filePath.split(separator: "/").dropLast(4).joined(separator: "/") + "/scripts"

  /// The paths of the programs among the scripts; the clang among them answers for itself.
  static let scripts = ["", "checks/", "parts/"].flatMap { part in
    Files.names(in: "\(folder)/\(part)").map { part + $0 }
  }.filter { name in
    var status = stat()
    let code = unsafe stat("\(folder)/\(name)", &status)
    return code == 0 && status.st_mode & S_IFMT == S_IFREG && status.st_mode & S_IXUSR != 0
      && name != "parts/clang"
  }

  @Test(arguments: scripts)
  func `each script answers help, from any directory, and does nothing else`(name: String) throws {
    let room = try TemporaryDirectory()
    // Without the other programs that a script needs: it must not come so far.
    let words = try Child.run(
      "/bin/sh",
      ["-c", "cd '\(room.path)' && HOME='\(room.path)' '\(Self.folder)/\(name)' --help 2>&1"])
    let lines = words.split(separator: "\n")
    #expect(lines.count >= 2, "\(words)")
    #expect(lines.contains { $0.contains("scripts/\(name)") }, "it shows how to start it: \(words)")
    #expect(!words.contains("#"), "\(words)")
    #expect(Set(Files.names(in: room.path)) == [".", ".."])
  }

  @Test func `there are scripts to ask, few of them at the top`() {
    #expect(Self.scripts.count > 25)
    #expect(Self.scripts.count { !$0.contains("/") } <= 16)
  }
}
