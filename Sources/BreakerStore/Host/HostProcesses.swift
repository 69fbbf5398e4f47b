package import BreakerCore

/// What a store knows about the processes that use it, on this host or on a simulated one.
package struct HostProcesses: Sendable {
  /// The calling process.
  package var current: @Sendable () -> ProcessIdentity

  /// A running process with this number, or nil if there is none.
  package var find: @Sendable (_ pid: Int32) -> ProcessIdentity?

  /// Why the calling process can do nothing more; nil as long as it runs.
  package var ending: @Sendable () -> StoreError?

  package init(
    current: @escaping @Sendable () -> ProcessIdentity,
    find: @escaping @Sendable (Int32) -> ProcessIdentity?,
    ending: @escaping @Sendable () -> StoreError?
  ) {
    self.current = current
    self.find = find
    self.ending = ending
  }

  /// The processes that the kernel knows about.
  package static let system = HostProcesses(
    current: { ProcessTable.current() }, find: { ProcessTable.process($0) }, ending: { nil })
}
