package import BreakerCore

/// What a store knows of the processes that use it: those of this host, or of a host in a test.
package struct HostProcesses: Sendable {
  /// The process that asks.
  package var current: @Sendable () -> ProcessIdentity

  /// A running process by its number, or nil if there is none.
  package var find: @Sendable (_ pid: Int32) -> ProcessIdentity?

  /// Whether a process has ended for certain.
  package var isGone: @Sendable (ProcessIdentity) -> Bool

  /// Why the process that asks can do nothing any more; nil as long as it runs.
  package var ending: @Sendable () -> StoreError?

  package init(
    current: @escaping @Sendable () -> ProcessIdentity,
    find: @escaping @Sendable (Int32) -> ProcessIdentity?,
    isGone: @escaping @Sendable (ProcessIdentity) -> Bool,
    ending: @escaping @Sendable () -> StoreError?
  ) {
    self.current = current
    self.find = find
    self.isGone = isGone
    self.ending = ending
  }

  /// The processes that the kernel knows.
  package static let system = HostProcesses(
    current: { ProcessTable.current() }, find: { ProcessTable.process($0) },
    isGone: { ProcessTable.isGone($0) }, ending: { nil })
}
