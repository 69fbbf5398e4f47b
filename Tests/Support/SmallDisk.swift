/// A file system of its own that is soon full.
package final class SmallDisk {
  private let path: String

  package init(at path: String, kilobytes: Int) throws {
    self.path = path
    try Files.makeDirectory(path)
    _ = try Child.run(
      "/bin/mount", ["-t", "tmpfs", "-o", "size=\(kilobytes)k", "shared-breaker-test", path])
  }

  deinit { _ = try? Child.run("/bin/umount", ["-l", path]) }

  private var filling: String { path + "/filling" }

  /// Leaves no room at all.
  package func fill() throws {
    let block = [UInt8](repeating: 1, count: 4_096)
    var all: [UInt8] = []
    while true {
      all += block
      do { try Files.write(filling, all) } catch { return }
    }
  }

  package func makeRoom() { Files.removeAll(filling) }

  /// Whether this process may mount file systems.
  package static let isPermitted: Bool = {
    guard isSuperuser, let directory = try? TemporaryDirectory() else { return false }
    return (try? SmallDisk(at: directory.file("disk"), kilobytes: 64)) != nil
  }()
}
