import other
other.run()
