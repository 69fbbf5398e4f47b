import BreakerRelay
import Testing

/// The pauses of a relay between its attempts.
struct PauseTests {
  @Test func `pauses become longer, up to one and a half seconds`() {
    var pause = Pause()
    #expect(pause.isFirst)
    for longest in [100, 200, 400, 800, 1_500, 1_500] {
      let time = pause.next()
      #expect(time >= .milliseconds(longest / 2) && time <= .milliseconds(longest))
      #expect(!pause.isFirst)
    }
  }

  @Test func `only a session that has lasted makes the next trouble news`() {
    var pause = Pause()
    for _ in 0..<5 { _ = pause.next() }
    pause.noteSession(of: .zero)
    pause.noteSession(of: .seconds(10))
    #expect(!pause.isFirst)
    #expect(pause.next() > .milliseconds(700))
    pause.noteSession(of: .seconds(10) + .nanoseconds(1))
    #expect(pause.isFirst)
    #expect(pause.next() <= .milliseconds(100))
  }
}
