internal import Glibc

/// A small file system that a test can fill.
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

  /// Fills the file system completely.
  package func fill() throws {
    let descriptor = unsafe open(filling, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw SupportError("open \(filling)", errno) }
    defer { close(descriptor) }
    let block = [UInt8](repeating: 1, count: 4_096)
    while unsafe write(descriptor, block, block.count) > 0 {}
  }

  package func makeRoom() { Files.removeAll(filling) }

  /// The files of the disk with their sizes, for messages.
  package var use: String {
    let files = (try? Files.all(in: path)) ?? []
    return files.map { "\($0) \((try? Files.read($0).count) ?? -1)" }.joined(separator: ", ")
  }

  /// Whether this process may mount file systems.
  package static let isPermitted: Bool = {
    guard isSuperuser, let directory = try? TemporaryDirectory() else { return false }
    return (try? SmallDisk(at: directory.file("disk"), kilobytes: 64)) != nil
  }()
}
