internal import CHost
internal import Glibc

/// The kind of file system that holds a store.
package enum FileSystem {
  /// Refuses a network file system, because a WAL needs memory that all its users share.
  static func refuseNetwork(_ directory: String) throws(StoreError) {
    guard let name = networkName(of: directory) else { return }
    throw StoreError(
      .networkFileSystem,
      "the store cannot be in \(StoreError.visible(directory)): it is on \(name), a network file"
        + " system, which processes cannot share safely: use a path on a local disk")
  }

  /// The name of the network file system that a directory is on, or nil if it is a local one.
  static func networkName(of directory: String) -> String? {
    networkName(
      type: unsafe sb_file_system_type(directory), device: device(of: directory), mounts: mounts)
  }

  /// The name of a directory's file system, if the mount table lists it.
  static func localName(of directory: String) -> String? {
    mountedType(of: device(of: directory), in: mounts())
  }

  /// The size of a directory's file system in bytes; nil if it cannot be told.
  static func size(of directory: String) -> Int64? {
    var status = statvfs()
    guard unsafe statvfs(directory, &status) == 0, status.f_blocks > 0 else { return nil }
    let (size, overflow) = UInt64(status.f_blocks).multipliedReportingOverflow(
      by: UInt64(status.f_frsize))
    return overflow ? .max : Int64(clamping: size)
  }

  private static func mounts() -> String { ProcFile.text("/proc/self/mountinfo") ?? "" }

  /// Where something is mounted; nil if the mount table cannot be read.
  static var mountPoints: Set<String>? {
    ProcFile.text("/proc/self/mountinfo").map(mountPoints(in:))
  }

  /// The places in a mount table, in which some characters are written as octal numbers.
  package static func mountPoints(in mounts: String) -> Set<String> {
    var points: Set<String> = []
    for line in mounts.split(separator: "\n") {
      let fields = line.split(separator: " ")
      guard fields.count > 4 else { continue }
      var point: [UInt8] = []
      var rest = fields[4].utf8[...]
      while let byte = rest.popFirst() {
        guard byte == UInt8(ascii: "\\"), rest.count >= 3,
          let number = UInt8(String(decoding: rest.prefix(3), as: UTF8.self), radix: 8)
        else {
          point.append(byte)
          continue
        }
        point.append(number)
        rest = rest.dropFirst(3)
      }
      points.insert(String(decoding: point, as: UTF8.self))
    }
    return points
  }

  /// The name of a network file system, or nil if the file system is a local one.
  ///
  /// All file systems in user space share one type number; the mount table tells them apart.
  package static func networkName(
    type: UInt64, device: @autoclosure () -> String, mounts: () -> String
  ) -> String? {
    if let name = networkName(ofType: type) { return name }
    guard type == fuse else { return nil }
    let name = mountedType(of: device(), in: mounts())
    return name.flatMap { networkPrograms.contains($0) ? $0 : nil }
  }

  /// The numbers come from linux/magic.h and from the file systems' own sources.
  ///
  /// This is no dictionary, because that would have to be made whenever a store is opened.
  private static func networkName(ofType type: UInt64) -> String? {
    switch type {
    case 0x6969: "NFS"
    case 0x517B: "SMB"
    case 0xFF53_4D42: "CIFS"
    case 0xFE53_4D42: "SMB2"
    case 0x0102_1997: "9P"
    case 0x00C3_6400: "Ceph"
    case 0x5346_414F: "AFS"
    case 0x6B41_4653: "AFS"
    case 0x564C: "NCP"
    case 0x7375_7245: "Coda"
    case 0x0BD0_0BD0: "Lustre"
    case 0x4750_4653: "GPFS"
    case 0x1980_0202: "BeeGFS"
    case 0x7461_636F: "OCFS2"
    case 0x0116_1970: "GFS2"
    default: nil
    }
  }

  private static let fuse: UInt64 = 0x6573_5546

  private static let networkPrograms: Set<String> = [
    "virtiofs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.glusterfs",
    "fuse.ceph", "fuse.ceph-fuse", "fuse.goofys", "fuse.juicefs", "fuse.davfs2", "fuse.curlftpfs",
    "fuse.mount-s3", "fuse.smbnetfs", "fuse.moosefs", "fuse.mfs",
  ]

  /// The type that the mount table lists for a device such as `0:52`.
  private static func mountedType(of device: String, in mounts: String) -> String? {
    for line in mounts.split(separator: "\n").reversed() {
      let fields = line.split(separator: " ")
      guard fields.count > 2, fields[2] == device, let dash = fields.firstIndex(of: "-"),
        dash + 1 < fields.count
      else { continue }
      return String(fields[dash + 1])
    }
    return nil
  }

  private static func device(of path: String) -> String {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return "" }
    let device = UInt64(status.st_dev)
    let major = (device >> 8) & 0xFFF | (device >> 32) & ~0xFFF
    let minor = device & 0xFF | (device >> 12) & ~0xFF
    return "\(major):\(minor)"
  }
}
