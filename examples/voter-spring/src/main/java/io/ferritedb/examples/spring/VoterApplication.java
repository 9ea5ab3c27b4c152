package io.ferritedb.examples.spring;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.context.properties.ConfigurationPropertiesScan;
import org.springframework.scheduling.annotation.EnableScheduling;

/**
 * Voter on the web: casts votes as fast as the database takes them, and shows on a page what they
 * come to.
 */
@SpringBootApplication
@ConfigurationPropertiesScan
@EnableScheduling
public class VoterApplication {
    public static void main(String[] arguments) {
        SpringApplication.run(VoterApplication.class, arguments);
    }
}
