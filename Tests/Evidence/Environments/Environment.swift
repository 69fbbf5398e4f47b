import Glibc

/// Where some of the processes of a scenario run, while others run on the plain host.
struct Environment: Sendable {
  var name: String

  /// The peculiarity of the environment, in a line.
  var summary: String

  /// Options of unshare(1) for each process inside, in addition to a mount namespace of its own.
  var namespaces: [String] = []

  /// Shell commands that run in these namespaces before each process starts.
  var preparation = ""

  /// Shell commands that mount a file system for the store at `$disk`.
  ///
  /// They may use the file `$image` and the directory `$room`.
  var disk = ""

  /// Whether a puppet inside has hardly any descriptors left while it creates its store.
  var isStarved = false

  /// Whether the file system can hold a lock for as long as a process lives; the guides name those
  /// that cannot.
  var keepsLifelines = true

  /// Whether Swift's tasks can be relied on: libdispatch, which runs them, reads `/proc` to size its
  /// pool, and may end a process that has none.
  var runsTasks: Bool { preparation != Self.withoutProc }

  /// Whether only root can create the environment.
  var needsRoot: Bool { !launcher.isEmpty || !disk.isEmpty }

  /// The command that starts a program inside.
  var launcher: [String] {
    guard !namespaces.isEmpty || !preparation.isEmpty else { return [] }
    return ["unshare", "--mount"] + namespaces
      + ["sh", "-ec", "\(preparation)\nexec \"$@\"", "sh"]
  }
}

extension Environment {
  static let all: [Environment] = ofProcesses + ofFileSystems + [bareContainer]

  private static let ofProcesses = [
    Environment(name: "plain", summary: "the host as it is, for all processes"),
    Environment(name: "no /proc", summary: "an empty /proc", preparation: withoutProc),
    Environment(
      name: "subset=pid",
      summary: "a /proc that shows processes and nothing else, as ProcSubset=pid of systemd does",
      preparation: "mount -t proc -o subset=pid proc /proc"),
    Environment(
      name: "foreign boot id",
      summary: "a boot id of its own, as some container runtimes mount one",
      preparation: """
        mount -t tmpfs none /mnt
        echo 3f0c2a5e-77f1-4d5e-9a43-0f5ed1a5b6c7 >/mnt/boot_id
        mount --bind /mnt/boot_id /proc/sys/kernel/random/boot_id
        """),
    Environment(
      name: "no descriptors", summary: "no descriptor left, or a few, while it makes its store",
      isStarved: true),
    Environment(
      name: "PID namespace", summary: "process numbers of its own", namespaces: withOwnPIDs),
    Environment(
      name: "foreign /proc", summary: "process numbers of its own, and the /proc of the host",
      namespaces: ["--pid", "--fork", "--kill-child"]),
    Environment(
      name: "time ahead", summary: "a boot clock that is a day ahead",
      namespaces: withClockAhead(by: 86_400)),
    Environment(
      name: "time behind", summary: "a boot clock that is up to an hour behind",
      // The kernel refuses a clock that would show a time before the boot.
      namespaces: withClockAhead(by: -min(3_600, Int(Scene.now() / 2_000_000_000)))),
  ]

  private static let ofFileSystems = [
    Environment(
      name: "ext2", summary: "a store on a file system that does not tell when a file was made",
      disk: imaged("mkfs.ext2 -q")),
    Environment(
      name: "ext4, small inodes", summary: "the same, on ext4 with inodes of 128 bytes",
      disk: imaged("mkfs.ext4 -q -I 128")),
    Environment(
      name: "xfs", summary: "a store on XFS", disk: imaged("mkfs.xfs -q", megabytes: 320)),
    Environment(
      name: "btrfs", summary: "a store on Btrfs", disk: imaged("mkfs.btrfs -q", megabytes: 128)),
    Environment(
      name: "tmpfs", summary: "a store in memory", disk: #"mount -t tmpfs none "$disk""#),
    Environment(
      name: "overlayfs", summary: "a store in the upper layer of an overlay",
      // The room may itself be on an overlay, which cannot hold the layers of another one.
      disk: #"""
        mkdir "$room/layers"
        mount -t tmpfs none "$room/layers"
        cd "$room/layers"
        mkdir lower upper work
        mount -t overlay none -o lowerdir=lower,upperdir=upper,workdir=work "$disk"
        """#, keepsLifelines: false),
  ]

  private static let bareContainer = Environment(
    name: "bare container, ext2", summary: "process numbers of its own, an empty /proc, and ext2",
    namespaces: withOwnPIDs, preparation: withoutProc, disk: imaged("mkfs.ext2 -q"))
}

extension Environment {
  private static let withoutProc = "mount -t tmpfs none /proc"
  private static let withOwnPIDs = ["--pid", "--fork", "--kill-child", "--mount-proc"]

  private static func withClockAhead(by seconds: Int) -> [String] {
    ["--time", "--boottime", "\(seconds)", "--monotonic", "\(seconds)", "--fork", "--kill-child"]
  }

  /// Commands that create a file system in a file and mount it.
  private static func imaged(_ make: String, megabytes: Int = 96) -> String {
    let program = make.prefix { $0 != " " }
    return #"""
      command -v \#(program) >/dev/null || { echo "there is no \#(program)"; exit 1; }
      truncate -s \#(megabytes)M "$image"
      \#(make) "$image"
      mount -o loop "$image" "$disk"
      """#
  }
}
