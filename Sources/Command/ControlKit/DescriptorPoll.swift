import Glibc
import ProgramKit

/// Waits for the first of several descriptors without polling.
struct DescriptorPoll {
  /// The result of a wait.
  struct End: Sendable {
    /// The descriptors that are readable.
    var ready: Set<Int32> = []

    /// Whether the output has no reader any more.
    var isOutputClosed = false
  }

  /// The descriptors to wait for.
  var descriptors: [Int32]

  /// The descriptor of the output; nil if its end does not matter.
  var output: Int32?

  /// The longest that a wait relies on a timer, because timers stop while the host sleeps.
  private static let longest = Duration.seconds(60)

  /// Waits until a descriptor is readable, the output is closed, or the time is over.
  ///
  /// The wait can end early without a result.
  func wait(atMost time: Duration? = nil) -> End {
    var entries = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    // poll reports a pipe without a reader even if no event is asked for.
    if let output { entries.append(pollfd(fd: output, events: 0, revents: 0)) }
    let milliseconds = time.map { SpokenDuration.milliseconds(min($0, Self.longest)) }
    let count = unsafe poll(
      &entries, nfds_t(entries.count), milliseconds.map { Int32($0) } ?? -1)
    var end = End()
    guard count > 0 else { return end }
    for entry in entries where entry.revents != 0 {
      if entry.events == 0 { end.isOutputClosed = true } else { end.ready.insert(entry.fd) }
    }
    return end
  }
}
