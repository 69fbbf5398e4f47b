internal import CHost
internal import Glibc

/// A file of a store that is mounted without its directory, as `docker -v breakers.db:breakers.db`
/// does.
///
/// Where it is mounted, it lies in another directory. There it gets a log, an index and counters of
/// its own, and nobody can replace it by renaming. To SQLite, this is a file with two names
/// (sqlite.org/howtocorrupt.html, 2.5), although it has only one.
struct LoneMount {
  /// What is added to the store's path to name the file.
  let suffix: String

  /// The first such file among a store and the files beside it; nil if there is none.
  ///
  /// - Parameter store: The path of the store with its directories resolved.
  init?(of store: String) {
    let directory = StorePath.split(store).directory
    let its = unsafe sb_mount(directory)
    let parts = ([""] + StoreSite.suffixes).filter { FileStatus(of: store + $0) != nil }
    let lone =
      its != 0
      ? parts.first { ![its, 0].contains(unsafe sb_mount(store + $0)) }
      // Before Linux 5.8 the kernel lists the places of mounts, without telling which one a path is on.
      : FileSystem.mountPoints.flatMap { points in parts.first { points.contains(store + $0) } }
    guard let lone else { return nil }
    suffix = lone
  }

  /// Refuses a store of which a file is mounted without its directory.
  static func refuse(_ store: String) throws(StoreError) {
    guard let mount = LoneMount(of: store) else { return }
    throw StoreError(
      .other, code: EXDEV,
      "cannot use the store \(StoreError.visible(store)): its file"
        + " \(StoreError.visible(StorePath.split(store + mount.suffix).file)) is mounted without its"
        + " directory, and has another log there: mount the directory instead")
  }
}
